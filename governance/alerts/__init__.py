"""Tells people that a budget has crossed a threshold or refuses calls: an outbox in the database, and who empties it.

    messages    what is said: versioned JSON, with amounts as decimal strings
    signing     the secrets of webhooks, and what they sign
    addresses   where webhooks post to, with queries that are secrets too
    outbox      the rows: made, claimed, and marked with what became of them
    sender      posts what is due through the guarded way out

What is told of is the ledger's (``budgets.crossings``, ``budgets.refusals``).
"""
