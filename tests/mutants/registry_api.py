"""`python -m tests.mutants.registry_api`: the protections of the registry's routes at the admin service."""

from typing import Final

from tests.mutants.machine import Mutant, run

_API: Final = "tests/integration/admin/test_registry_api.py::test_"
_LOOKS: Final = "tests/integration/admin/test_registry_looks.py::test_"
_STALE: Final = f"{_API}a_change_of_another_state_than_is_in_force_is_refused"
_KNOWN: Final = f"{_API}who_has_what_is_in_force_is_told_so_without_it"
_DRY: Final = f"{_API}a_dry_run_says_what_differs_and_writes_nothing"
_WHY: Final = f"{_API}whoever_changes_something_says_why"
_SECRET: Final = f"{_API}a_secret_is_shown_once_and_each_act_is_written_down"
_WRITTEN: Final = f"{_API}what_cannot_be_written_down_is_not_done_and_no_secret_is_shown"
_SHOWN: Final = f"{_API}what_is_in_force_is_shown_without_hashes_and_put_back_with_those_it_has"
_BODIES: Final = f"{_API}a_body_that_is_no_registry_is_refused_and_says_where"
_PAGES: Final = f"{_API}the_history_has_pages_and_its_cursor_is_no_other_lists"
_RIGHTS: Final = f"{_LOOKS}viewers_read_and_admins_of_all_events_change"
_SEEN: Final = f"{_LOOKS}who_sees_some_events_sees_their_types_tables_and_topics_alone"
_TOPICS: Final = f"{_LOOKS}a_topic_is_made_once_and_its_samples_hide_what_is_personal"
_KEPT: Final = f"{_LOOKS}a_topic_keeps_events_as_long_as_an_admin_says"
_ALTERED: Final = (
    "tests/integration/admin/test_topics.py::"
    "test_a_topic_that_keeps_events_otherwise_than_its_type_says_is_named_and_changed"
)
_OTHERS: Final = "tests/integration/admin/test_topics.py::test_what_keeps_no_events_is_not_changed"
_LISTED: Final = "tests/integration/admin/test_topics.py::test_a_topic_is_listed_with_what_kafka_says_of_it"

REGISTRY_API: Final = (
    Mutant(
        "that If-Match is compared",
        "registry_api/asked.py",
        'if self._given and self._given != "*" and tag not in self._tags:',
        "if False:",
        _STALE,
    ),
    Mutant("that If-Match is asked for", "registry_api/asked.py", "if not self._given:", "if False:", _STALE),
    Mutant("that a weak tag is no state", "registry_api/asked.py", "if not weak]", "]", _STALE),
    Mutant(
        "that If-None-Match is compared",
        "registry_api/changes.py",
        "if known is not None and known.has(tag):",
        "if False:",
        _KNOWN,
    ),
    Mutant(
        "that a state which others than one's own see is another",
        "registry_api/changes.py",
        'tag = f"{seen.tag}{seen_by}"',
        "tag = seen.tag",
        _KNOWN,
    ),
    Mutant(
        "that If-None-Match is compared weakly",
        "registry_api/asked.py",
        "{tag for _, tag in _TAG.findall(given)}",
        "{tag for weak, tag in _TAG.findall(given) if not weak}",
        _KNOWN,
    ),
    Mutant(
        "that the log decides which of two changes counts",
        "registry/desk.py",
        "with editing(self.kafka, self._named) as editor:\n                yield editor",
        "with editing(self.kafka, self._named) as editor:\n"
        "                editor.write = lambda *_, **__: editor._log.append(b'')  # type: ignore\n"
        "                yield editor",
        f"{_API}of_two_changes_of_one_state_at_once_one_wins",
    ),
    Mutant(
        "that a dry run of a change writes nothing",
        "registry_api/changes.py",
        "said.accept, said.dry_run)",
        "said.accept)",
        _DRY,
    ),
    Mutant(
        "that a dry run makes no topic",
        "registry_api/topics.py",
        "desk.kafka, is_dry=said.dry_run)",
        "desk.kafka)",
        _DRY,
    ),
    Mutant(
        "that a dry run is no act",
        "registry_api/changes.py",
        "if result.state is not Ended.APPLIED:",
        "if False:",
        _DRY,
    ),
    Mutant(
        "that a change has a reason",
        "registry_api/asked.py",
        "if not self.dry_run and not self.reason.strip():",
        "if False:",
        _WHY,
    ),
    Mutant(
        "that a change is written down",
        "registry_api/changes.py",
        "record_act(conn, wish.actor, act.name, act.subject, said.reason)",
        "pass",
        f"{_SECRET} {_WRITTEN}",
    ),
    Mutant("that hashes are not shown", "registry_api/whole.py", 'if field != "hashes"', "if True", _SHOWN),
    Mutant(
        "that hashes that are not sent stay",
        "registry_api/whole.py",
        "if isinstance(entry, dict) and name in there",
        "if False",
        _SHOWN,
    ),
    Mutant(
        "that a key which is not in force has no secret",
        "registry_api/keys.py",
        "if result.state is Ended.APPLIED else",
        "if True else",
        _DRY,
    ),
    Mutant("the bound of a body", "registry_api/asked.py", "if size > most:", "if False:", _BODIES),
    Mutant(
        "that a name twice in one object is refused",
        "registry_api/asked.py",
        "document = loads(given)",
        "document = __import__('orjson').loads(given or b'[')",
        _BODIES,
    ),
    Mutant(
        "that a cursor is of one list",
        "registry_api/pages.py",
        "cursors.decode(key, name, filters, query.cursor)[0]",
        "cursors.orjson.loads(cursors.urlsafe_b64decode(query.cursor + '===')[16:])[0]",
        _PAGES,
    ),
    *(
        Mutant(
            f"who may ask {route}",
            "api/rights.py",
            f'"{route}": Need("{old}"',
            f'"{route}": Need("{new}"',
            test,
        )
        for route, old, new, test in (
            ("PUT /v1/registry", "admin", "viewer", _RIGHTS),
            ("PUT /v1/types/{name}", "admin", "operator", _RIGHTS),
            ("POST /v1/keys", "admin", "operator", _RIGHTS),
            ("POST /v1/topics", "admin", "operator", _RIGHTS),
        )
    ),
    *(
        Mutant(f"that {what} are those that one sees", f"registry_api/{file}", old, "", _SEEN)
        for what, file, old in (
            ("types", "types.py", " if asking.sees(name)"),
            ("destinations", "looks.py", "asking.sees(only) and "),
        )
    ),
    Mutant(
        "that a sample is of a topic that one sees",
        "registry_api/topics.py",
        "if topics.is_own(topic) or not _sees(asking, snapshot, topic):",
        "if topics.is_own(topic):",
        _SEEN,
    ),
    Mutant(
        "that a topic without an event type of its name is as its name says",
        "registry/of_topics.py",
        "{*types_by_topic(registry).get(topic, []), *unsaid}",
        "{*(types_by_topic(registry).get(topic) or unsaid)}",
        _SEEN,
    ),
    Mutant(
        "that a dry run leaves a topic's retention",
        "operate/kafka_retention.py",
        "str(after), is_dry=is_dry)",
        "str(after), is_dry=False)",
        f"{_KEPT} {_ALTERED}",
    ),
    Mutant(
        "that only topics of events are changed",
        "operate/kafka_retention.py",
        "    if is_own(topic):",
        "    if False:",
        _OTHERS,
    ),
    Mutant(
        "that a dry run of a topic's change is no act",
        "registry_api/topics.py",
        "            if said.dry_run:\n                conn.rollback()",
        "            if False:\n                conn.rollback()",
        _KEPT,
    ),
    Mutant(
        "that a topic which keeps events otherwise is named",
        "registry/of_topics.py",
        "said is not None and milliseconds(said) != found.retention_ms",
        "False",
        _ALTERED,
    ),
    Mutant(
        "the bytes of a topic",
        "kafka_logs.py",
        "sizes[number] = max(size, sizes.get(number, 0))",
        "sizes[number] = 0",
        _LISTED,
    ),
    Mutant(
        "that a sample hides what is personal",
        "registry_api/topics.py",
        "personal = personal_of(snapshot, topic)",
        "personal: list[str] = []",
        _TOPICS,
    ),
)

if __name__ == "__main__":
    run("services/admin", (), REGISTRY_API)
