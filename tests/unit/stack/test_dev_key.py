"""The development key: one per data folder, readable by its owner only."""

from pathlib import Path

from stack.dev_key import FILE_NAME, dev_key


def test_the_key_stays_the_same_and_differs_between_folders(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert dev_key(tmp_path) == dev_key(tmp_path) != dev_key(tmp_path / "other")


def test_only_its_owner_may_read_the_key(tmp_path: Path) -> None:
    dev_key(tmp_path)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0


def test_an_empty_file_is_no_key(tmp_path: Path) -> None:
    """Seen: a full disk left one, and with it the gateway's door stood open to everybody."""
    (tmp_path / FILE_NAME).touch()
    assert dev_key(tmp_path).startswith("onramp_dev_")
