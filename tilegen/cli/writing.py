"""Several files, all new or all as they were."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tilegen.errors import Diagnostic, InputError


def write_together(texts: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Write the files ``name: text`` into ``folder``; returns the names whose content changed.

    All texts are on disk, beside their places, before the first file is replaced; if replacing one fails, those that
    were replaced get their old content back. A file is never half written, whenever the process is killed; killed
    between two renames, it leaves new files beside old ones, which ``--check`` and the sha256 in a manifest tell apart.
    Raises InputError (TG602).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        changed = {name: text for name, text in texts.items() if read_text(folder / name) != text}
        if changed:
            with tempfile.TemporaryDirectory(prefix=".tilegen-", dir=folder) as stage:
                _stage(changed, Path(stage))
                _replace_all(tuple(changed), folder, Path(stage))
        return tuple(changed)
    except OSError as error:
        name = error.filename2 or error.filename or folder
        raise InputError(Diagnostic("TG602", f"cannot write {name}: {error.strerror or error}")) from None


def read_text(path: Path) -> str | None:
    """What a file holds, or None where there is no file or no text."""
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _stage(texts: Mapping[str, str], stage: Path) -> None:
    for name, text in texts.items():
        (stage / name).write_bytes(text.encode("utf-8"))


def _replace_all(names: tuple[str, ...], folder: Path, stage: Path) -> None:
    kept = {name: _keep(folder / name, stage / f"{name}.old") for name in names}
    done: list[str] = []
    try:
        for name in names:
            done.append(name)
            os.replace(stage / name, folder / name)
    except BaseException:
        for name in done:
            _put_back(folder / name, kept[name])
        raise


def _keep(path: Path, copy: Path) -> Path | None:
    """A second name for a file's content, so that putting it back needs no space on the disk."""
    if not path.is_file():
        return None
    try:
        os.link(path, copy, follow_symlinks=False)
    except OSError:  # file systems without links
        shutil.copy2(path, copy)
    return copy


def _put_back(path: Path, copy: Path | None) -> None:
    with suppress(OSError):
        if copy:
            os.rename(copy, path)
        elif path.is_file():
            path.unlink()
