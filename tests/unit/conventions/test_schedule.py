"""Each process of pytest stays in a folder, so that the folder's brokers start once."""

from tests.fixtures.folder_schedule import next_file

A = [f"tests/a/test_{n}.py" for n in range(5)]
B = [f"tests/b/test_{n}.py" for n in range(3)]
C = ["tests/b/c/test_0.py"]


def test_a_process_stays_in_its_folder_and_then_takes_one_that_no_other_process_is_in() -> None:
    assert next_file([*A[1:], *B], B[:1], A[:1]) == B[0]
    assert next_file([*A[1:], *B, *C], [], A[:1]) == B[0]
    assert next_file([*A[1:], *C], B[-1:], A[:1]) == C[0]


def test_without_a_free_folder_it_helps_where_many_files_are_left() -> None:
    assert next_file([*B, *A], C, [B[0], A[0]]) == A[0]
    assert next_file([*B, *A[2:]], C, [B[0], A[0]]) == B[0]
