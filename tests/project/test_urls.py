"""What Django answers besides the admin."""

from django.test import Client


def test_whoever_types_the_host_alone_comes_to_the_admin(client: Client) -> None:
    answer = client.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/")
