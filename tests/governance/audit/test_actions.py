"""The closed sets of the trail, each member with words."""

from governance.audit.actions import (
    ACTION_LABELS,
    CHANNEL_LABELS,
    KIND_LABELS,
    AuditAction,
    Channel,
    RecordKind,
)


def test_every_member_has_a_label_of_its_own() -> None:
    for members, labels in (
        (AuditAction, ACTION_LABELS),
        (RecordKind, KIND_LABELS),
        (Channel, CHANNEL_LABELS),
    ):
        assert set(labels) == set(members)
        assert len(set(labels.values())) == len(labels)
        assert all(label[0].isupper() for label in labels.values())


def test_members_fit_their_columns() -> None:
    assert max(map(len, AuditAction)) <= 50
    assert max(map(len, RecordKind)) <= 30
    assert max(map(len, Channel)) <= 20
