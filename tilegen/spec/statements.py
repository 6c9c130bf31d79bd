"""Statements: ops, loops and syncs, with the names that hold where they stand."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import replace

from tilegen.index import Index
from tilegen.near_words import suggest
from tilegen.scopes import CLUSTER_AXES, COUNT_AXES, CTA_AXES, OP_SCOPES
from tilegen.spec.absent import refuse_later
from tilegen.spec.calls import read_call
from tilegen.spec.data import Buffer, Call, Nest, Statement, SyncStatement, WholeCall
from tilegen.spec.findings import Flawed, shorten
from tilegen.spec.form import WholeForm
from tilegen.spec.models import SyncFields, check_fields, field_names
from tilegen.spec.names import Names, names_in_scope
from tilegen.spec.nests import foresee_lets, read_let, read_loop, read_role_block, read_when_statement
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, describe_node, list_words
from tilegen.spec.surroundings import Surroundings
from tilegen.spec.waits import read_arrive, read_commit, read_committed, read_follow, read_wait, read_when, span
from tilegen.spec.whole import read_whole

STATEMENTS = ("sync", "for", "let", "when", "role", "commit", "wait", "arrive")  # beside ops


def read_statements(node: Node, around: Surroundings) -> tuple[Statement, ...]:
    """The statements of a list, without those that were reported."""
    if not isinstance(node, Sequence):
        if not (isinstance(node, Scalar) and node.value is None):
            message = f"a list of statements is due here, not {describe_node(node)}"
            around.findings.report("TG103", message, node.mark, "for example '- sync: cta'")
        return ()
    statements: list[Statement] = []
    claimed: list[str] = []
    around = replace(around, names=foresee_lets(node.items, around.names))
    for item in node.items:
        with around.findings.collect():
            if isinstance(item, Mapping) and "let" in item and not any(k.text in around.forms for k, _ in item.entries):
                naming, around = read_let(item, around, claimed)
                statements += [naming] if naming else []
                continue
            statement = _read_statement(item, around)
            if statement is not None:
                statements.append(statement)
    for name in claimed:
        around.register.release(name)
    return tuple(statements)


def _read_statement(node: Node, around: Surroundings) -> Statement | None:
    if isinstance(node, Scalar) and node.text == "commit":
        _refuse_outside("a commit", node, around)
        around.check_agree("warp", "a commit", node.mark)
        return read_commit(node, around.names, around.findings)
    if not isinstance(node, Mapping) or not node.entries:
        raise Flawed(
            "TG114", f"a statement is 'op: {{...}}', not {describe_node(node)}", node.mark, "for example '- sync: cta'"
        )
    op = next((key for key, _ in node.entries if key.text in around.forms), None)
    if op is None and "for" in node:
        return read_loop(node, around, read_statements)
    if op is None and "role" in node:
        return read_role_block(node, around, read_statements)
    if op is None and "sync" in node:
        return _read_sync(node, around)
    if op is None and "arrive" in node:
        _refuse_outside("an arrival", node, around)
        return read_arrive(node, around)
    if op is None and "wait" in node and isinstance(node["wait"], Scalar) and node["wait"].text == "previous":
        return read_follow(node, around)
    if op is None and "commit" in node and isinstance(node["commit"], Mapping):
        _refuse_outside("a commit", node, around)
        return read_committed(node, around)
    if op is None and ("commit" in node or "wait" in node):
        _refuse_outside("a commit or a wait", node, around)
        around.check_agree("warp", "a commit or a wait", node.entries[0][0].mark)
        names = names_in_scope(around.names, "warp", around.threads or 1024)
        if "commit" in node:
            return read_commit(node, names, around.findings)
        return read_wait(node, names, around)
    if op is None and "when" in node and ("do" in node or len(node.entries) == 1):
        return read_when_statement(node, around, read_statements)
    key = op or node.entries[0][0]
    if op is None:
        known = [*around.forms, *STATEMENTS]
        around.register.unread.update(list_words(node))
        raise Flawed("TG110", f"unknown op '{shorten(key.text)}'", key.mark, suggest(key.text, known))
    others = [other for other, _ in node.entries if other is not op]
    if others:
        is_field = others[0].text in field_names(around.forms[op.text].model)
        hint = f"move it into the braces of {op.text}" if is_field else "start a new list item with '- '"
        message = f"'{shorten(others[0].text)}' stands beside the op '{op.text}'"
        raise Flawed("TG114", message, others[0].mark, hint)
    form = around.forms[op.text]
    if isinstance(form, WholeForm):
        return read_whole(op, node[op.text], form, around.buffers, around.findings)
    _refuse_outside(f"the op '{op.text}'", node, around)
    return read_call(op, node[op.text], form, around)


def _refuse_outside(what: str, node: Node, around: Surroundings) -> None:
    """Raises TG190 for what all threads of all roles would do together."""
    if around.is_outside:
        raise refuse_later(f"{what} beside role blocks", node, "put it into a role; names and syncs may stand here")


# ---------------------------------------------------------------- syncs
def _read_sync(node: Mapping, around: Surroundings) -> SyncStatement | None:
    fields = check_fields(node, SyncFields, "this sync", around.findings)
    scope = node["sync"]
    if isinstance(scope, Sequence) and fields:
        around.check_agree("role", "a sync", scope.mark)
        condition = read_when(node, names_in_scope(around.names, "role", around.threads or 1024), around.findings)
        return SyncStatement("roles", condition, span(node.key("sync").mark, scope.mark), _read_roles(scope, around))
    if not isinstance(scope, Scalar) or scope.text not in (*OP_SCOPES[1:], "role", "cluster", "async"):
        return None
    _check_place(scope, around)
    if around.threads and scope.text not in ("warp", "async"):
        around.check_unit(scope.text, scope.mark, "a sync")
    if scope.text == "cluster" and around.cluster == (1, 1, 1):
        raise Flawed(
            "TG106", "'sync: cluster' needs a cluster", scope.mark, "add 'cluster: {cbx: 2}', or write 'sync: cta'"
        )
    inner = "warp" if scope.text == "async" else scope.text
    around.check_agree(inner, f"sync: {scope.text}", scope.mark)
    condition = read_when(node, names_in_scope(around.names, inner, around.threads or 1024), around.findings)
    return SyncStatement(scope.text, condition, span(node.key("sync").mark, scope.mark)) if fields else None


def _read_roles(node: Sequence, around: Surroundings) -> tuple[str, ...]:
    """The roles that meet, in the spec's order. Raises TG119 where this place's is none of them, or the only one."""
    named = [item.text for item in node.items if isinstance(item, Scalar)]
    for item, name in zip(node.items, named, strict=False):
        if name not in around.roles:
            if name in around.broken_roles:
                raise Flawed()
            raise Flawed("TG105", f"unknown role '{shorten(name)}'", item.mark, suggest(name, around.roles))
    if len(named) < 2 or len(set(named)) < len(named):
        raise Flawed(
            "TG119", "a list of who meets has several roles, each once", node.mark, "write 'sync: role' for one"
        )
    if around.role not in named:
        where = f"in role '{around.role}'" if around.role else "outside of roles"
        raise Flawed("TG119", f"a sync of {' and '.join(named)} {where}", node.mark, "it stands in each of these roles")
    return tuple(name for name in around.roles if name in named)


def _check_place(scope: Scalar, around: Surroundings) -> None:
    """In a role its own threads meet, beside roles all; raises TG119 and TG190."""
    if scope.text in ("cta", "cluster") and around.role:
        message = f"'sync: {scope.text}' in role '{around.role}': other roles do not come here"
        raise Flawed("TG119", message, scope.mark, "write 'sync: role', or put it beside the role blocks")
    if scope.text == "role" and not around.role:
        raise Flawed("TG119", "'sync: role' outside of a role", scope.mark, "write 'sync: cta'")
    if scope.text not in ("cta", "cluster") and around.is_outside:
        raise refuse_later(f"'sync: {scope.text}' beside role blocks", scope, "put it into a role")


def written_buffers(statements: tuple[Statement, ...]) -> dict[str, Buffer]:
    """The buffers that any op writes, by name."""
    written: dict[str, Buffer] = {}
    for s in statements:
        if isinstance(s, Nest):
            written |= written_buffers(s.body)
        elif isinstance(s, Call):
            written |= {r.buffer.name: r.buffer for r in s.written}
        elif isinstance(s, WholeCall):
            written |= {s.arrays[name].name: s.arrays[name] for name in s.form.writes}
    return written


def cta_names(values: Dict[str, Index], grid: tuple[Index, Index, Index], names: Names) -> Names:
    """What all statements may use: params, the axes of the CTA, and how many CTAs there are."""
    counts = dict(zip(COUNT_AXES, grid, strict=True))
    return names.with_values({name: values[name] for name in (*CTA_AXES, *CLUSTER_AXES)} | counts)
