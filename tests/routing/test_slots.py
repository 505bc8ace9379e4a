from routing.slots import Slots


def test_so_many_at_once_and_no_more() -> None:
    slots = Slots()
    first, second = (slots.take("prod-east", limit=2) for _ in range(2))
    assert first is not None
    assert second is not None
    assert slots.take("prod-east", limit=2) is None
    assert slots.take("prod-west", limit=1) is not None
    first.give_back()
    first.give_back()  # once is enough
    assert slots.taken["prod-east"] == 1
    assert slots.take("prod-east", limit=2) is not None
    assert slots.take("prod-east", limit=2) is None


def test_without_a_limit_they_are_counted() -> None:
    slots = Slots()
    taken = [slots.take("prod-east", limit=None) for _ in range(100)]
    assert slots.taken["prod-east"] == 100
    assert slots.take("prod-east", limit=100) is None  # a limit that an operator has just set
    for slot in taken:
        assert slot is not None
        slot.give_back()
    assert slots.taken["prod-east"] == 0
