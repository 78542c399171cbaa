"""Tests of a function on examples: `NAME.tests.yaml` next to its source, run without Kafka and databases."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from services.transform.function.lookups import table_of
from services.transform.function.output_checks import OutputChecks
from services.transform.function.results import Dropped, Failure, FunctionResult
from services.transform.function.runner import FunctionRunner
from services.transform.function.transform_code import TransformCode
from shared.json_differences import ABSENT, JsonDifference, differences
from shared.registry import strict_yaml
from shared.registry.file import RegistryFileError, load
from shared.registry.memory import reasons
from shared.registry.transforms import Transform, TransformLimits, digest_of_source

_METADATA = {"id": "test", "timestamp": "2026-01-01T00:00:00Z", "version": "1"}


class AuthorFileError(ValueError):
    """The source, its tests or the registry's file cannot be used; the text says where and why."""


class ExpectedFailure(BaseModel):
    """The failure that an example expects: the code, or the exception's name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    error: str


class ExpectedOutput(BaseModel):
    """An output that an example expects."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event_name: str
    payload: dict[str, Any]


class Example(BaseModel):
    """An event, the rows of its lookups, and the expected outputs; no outputs: the event is dropped."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    given: dict[str, Any]
    lookups: dict[str, dict[str, dict[str, Any]]] = Field(default_factory=dict)
    expect: ExpectedFailure | ExpectedOutput | tuple[ExpectedOutput, ...] | None

    def event(self, source_type: str) -> bytes:
        """Return the given event; its metadata and name may be left out."""
        return orjson.dumps({"metadata": _METADATA, "event_name": source_type, **self.given})

    def expected(self) -> list[dict[str, Any]]:
        """Return the expected outputs."""
        outputs = () if self.expect is None else self.expect
        if isinstance(outputs, ExpectedFailure):
            return []
        listed = (outputs,) if isinstance(outputs, ExpectedOutput) else outputs
        return [each.model_dump() for each in listed]


_EXAMPLES = TypeAdapter[list[Example]](Annotated[list[Example], Field(min_length=1)])


class ExampleResult(NamedTuple):
    """The result of an example; no problems: it passed."""

    name: str
    problems: list[str]
    #: Lines that the function printed or logged.
    printed: list[str]


class Project(NamedTuple):
    """A function's files, and its entry in the registry's file if there is one."""

    code: TransformCode
    examples: Sequence[Example]
    checks: OutputChecks
    source_type: str
    lookups: frozenset[str]


def source_path(folder: Path, name: str) -> Path:
    """Return the path of a function's source."""
    return folder / f"{name}.py"


def tests_path(folder: Path, name: str) -> Path:
    """Return the path of a function's tests."""
    return folder / f"{name}.tests.yaml"


def read_source(folder: Path, name: str) -> str:
    """Return a function's source.  Raise `AuthorFileError`."""
    path = source_path(folder, name)
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise AuthorFileError(f"{path} is not text in UTF-8") from None
    except OSError as e:
        raise AuthorFileError(f"{path} cannot be read: {e.strerror or type(e).__name__}") from None


def load_project(folder: Path, name: str, registry: Path | None, environment: str = "") -> Project:
    """Load the files of a function.  Raise `AuthorFileError`.

    `registry`: the registry's file, which has the transform's types and limits; None if there is none.
    """
    source = read_source(folder, name)
    transform, event_types = None, {}
    if registry is not None:
        try:
            snapshot = load(registry)
        except RegistryFileError as e:
            raise AuthorFileError(str(e)) from None
        transform, event_types = snapshot.transforms.get(name), dict(snapshot.event_types)
    limits = transform.limits if transform else TransformLimits()
    code = TransformCode(name, source, digest_of_source(source), limits, environment)
    checks = OutputChecks(transform.to if transform else None, event_types)
    return Project(code, load_examples(tests_path(folder, name)), checks, *_source_of(transform))


def _source_of(transform: Transform | None) -> tuple[str, frozenset[str]]:
    if transform is None:
        return "", frozenset()
    return transform.source_type, frozenset(transform.lookups)


def load_examples(path: Path) -> list[Example]:
    """Return the examples of a file.  Raise `AuthorFileError`."""
    try:
        document = strict_yaml.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise AuthorFileError(f"{path} does not exist: `onramp transforms new` writes one") from None
    except (OSError, ValueError) as e:
        raise AuthorFileError(f"{path}: {e}") from None
    try:
        return _EXAMPLES.validate_python(document)
    except ValidationError as e:
        raise AuthorFileError(f"{path}: {'; '.join(reasons(e)[:10])}") from None


def run_examples(project: Project) -> Iterator[ExampleResult]:
    """Run the examples and yield their results, in order."""
    runner = FunctionRunner(project.code, {})
    names = project.lookups.union(*(each.lookups for each in project.examples))
    try:
        for number, example in enumerate(project.examples, 1):
            runner.set_lookups({name: table_of(name, example.lookups.get(name, {})) for name in names})
            (result,) = runner.run([example.event(project.source_type)])
            lines, _ = runner.take_logs()
            yield ExampleResult(
                example.name or f"example {number}",
                list(_problems(example, result, project.checks)),
                [each.text for each in lines],
            )
    finally:
        runner.close()


def _problems(example: Example, result: FunctionResult, checks: OutputChecks) -> Iterator[str]:
    expected = example.expect
    if isinstance(result, Failure):
        if isinstance(expected, ExpectedFailure) and expected.error in {result.error.code, result.exception}:
            return
        at = f" at line {result.line}" if result.line is not None else ""
        yield f"{result.error.code}: {result.exception}{at}: {result.message}"
        if result.traceback:
            yield result.traceback.rstrip()
        return
    outputs = () if isinstance(result, Dropped) else result.items
    if (fault := checks.fault_of(outputs)) is not None:
        if not (isinstance(expected, ExpectedFailure) and expected.error == fault.fault.code):
            yield f"{fault.fault.code}: {fault.detail}"
        return
    if isinstance(expected, ExpectedFailure):
        yield f"expected {expected.error}; the event is {'emitted' if outputs else 'dropped'}"
        return
    made = [{"event_name": each.event_name, "payload": orjson.loads(each.payload)} for each in outputs]
    found = differences(example.expected(), made)
    yield from map(_line, sorted(found, key=lambda each: each.pointer))


def _line(difference: JsonDifference) -> str:
    return f"{difference.pointer}: expected {_shown(difference.first)}, was {_shown(difference.second)}"


def _shown(value: Any) -> str:
    return "nothing" if value is ABSENT else orjson.dumps(value).decode()
