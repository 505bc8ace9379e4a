"""Real servers for tests, benchmarks and anything else that wants one: PostgreSQL and Valkey, from wheels,
on loopback, on a free port, in a folder of their own, gone when the block ends. pytest is not needed; its
fixtures are in `tests/conftest.py`.

    with running_postgres() as server:
        print(server.url)
"""
