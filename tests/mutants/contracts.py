"""`python -m tests.mutants.contracts`: what an event type promises, and the tests that hold each."""

from typing import Final

from tests.mutants.machine import Mutant, run

COMPARED: Final = "tests/unit/contracts/test_compatibility.py"
INFERRED: Final = "tests/unit/contracts/test_infer.py"
BOUNDED: Final = f"{COMPARED}::test_everything_gets_a_verdict_in_bounded_time"

#: How much is told of the faults of a payload.
TOLD: Final = "tests/unit/ingest/test_many_faults.py"

CONTRACTS: Final = (
    Mutant("faults of large events", "faults.py", "if size <= _MOST_BYTES:", "if True:", tests=TOLD),
    Mutant("names that are compared", "faults.py", "> _MOST_CHARACTERS:", "> 10**9:", tests=TOLD),
    Mutant(
        "the retriever that raises",
        "json_schema.py",
        "retriever=_reject_reference",
        "retriever=lambda uri: {}",
        tests="tests/unit/ingest/test_event_types.py",
    ),
    Mutant(
        "the depth of what is compared",
        "json_values.py",
        "for _ in range(MOST_DEPTH):",
        "while True:",
        COMPARED,
    ),
    Mutant("the size of what is compared", "json_values.py", "if count > MOST_VALUES:", "if False:", BOUNDED),
    Mutant("the bound of a comparison", "compatibility.py", "self._left -= pairs", "pass", BOUNDED),
    Mutant("pairs that were seen", "compatibility.py", "in seen:", "in ():", COMPARED),
    Mutant(
        "what is said beside a reference", "local_refs.py", "if len(rules_of(schema)) > 1:", "if 0:", COMPARED
    ),
    Mutant(
        "parts with a base of their own",
        "local_refs.py",
        "if any(isinstance(value.get",
        "if 0 and any(isinstance(value.get",
        COMPARED,
    ),
    *(
        Mutant(f"comparing {name}", "rules.py", old, new, COMPARED)
        for name, old, new in (
            ("types", "if rejected := pair.kinds - kinds_of(pair.new):", "if rejected := frozenset():"),
            ("listed values", "elif missing := sorted(old.keys() - new.keys()):", "elif missing := []:"),
            (
                "values that were not listed",
                "    if old is None:\n        pair.breaks",
                "    if False:\n        pair.breaks",
            ),
            ("bounds", "elif bound(pair.old, lower=lower, whole=whole) < ", "elif (9, 9) < "),
            ("lengths", "elif (old or 0) < new if least else old is None or old > new:", "elif False:"),
            ("patterns", "elif pair.old[key] != pair.new[key]:", "elif False:"),
            ("formats", "    if old == new:\n", "    if True:\n"),
            ("required fields", "sorted(_required(pair.new) - _required(pair.old))", "()"),
            ("fields", "            pair.then(old[name], schema, key, name)", "            pass"),
            ("fields that come", "        _added(pair, name, schema)", "        pass"),
            (
                "fields that go",
                "        elif name not in named:\n            pair.then(schema, new, key, name)",
                "",
            ),
            ("other fields", "        pair.then(rest, new, key)", "        pass"),
            ("patterns of names", 'if "patternProperties" in pair.old and', "if False and"),
            ("first elements", 'if "prefixItems" in pair.old and', "if False and"),
            ("elements", "        pair.then(pair.old.get(key, True), pair.new[key], key)", "        pass"),
            ("what is not known", "    if old != new or", "    if False and old != new or"),
            ("references in what is not known", """ or '"$ref"' in old""", ""),
            ("unevaluated", ' or key.startswith("unevaluated")', ""),
        )
    ),
    Mutant("formats of every sample", "infer.py", "if _FORMATS[name](value)}", "}", INFERRED),
    Mutant("fields that every sample has", "infer.py", "if count == self._objects]", "]", INFERRED),
    Mutant("the bound of fields", "infer.py", "> _MOST_FIELDS", "> 10**9", INFERRED),
    Mutant("each alternative", "compatibility.py", "return all(any(", "return any(any(", COMPARED),
    Mutant(
        "what stands beside alternatives",
        "compatibility.py",
        'if "anyOf" in pair.new and len(rules_of(pair.new)) > 1:',
        "if False:",
        COMPARED,
    ),
)

if __name__ == "__main__":
    run("shared/contracts", CONTRACTS, ())
