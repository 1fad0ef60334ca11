"""The fields of a template: which values it is given, and what it reads of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import jinja2
from jinja2 import meta, nodes

from rldf_ray.errors import UserError


class TemplateError(UserError, ValueError):
    """A text is no template; the message says where and why."""


def template_fields(environment: jinja2.Environment, name: str) -> frozenset[str]:
    """The fields of a template and of those that it includes, as 'number', 'identity.name'.

    What a loop goes through is 'turns[]', and what it reads of each 'turns[].text'.

    Raises:
        TemplateError: it, or one that it includes, is no template or is not there.
    """
    fields: set[str] = set()
    waiting, seen = [name], set[str]()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        tree = _tree(environment, one)
        fields |= meta.find_undeclared_variables(tree)
        fields |= set(_read_of(tree, {}))
        for included in meta.find_referenced_templates(tree):
            if included is None:
                raise TemplateError("it includes a file whose name is computed; write the name")
            waiting.append(included)
    return frozenset(fields)


def _tree(environment: jinja2.Environment, name: str) -> nodes.Template:
    assert environment.loader is not None
    try:
        source, _, _ = environment.loader.get_source(environment, name)
        tree = environment.parse(source, name)
        # Filters and tests that there are not are found when it is compiled.
        environment.compile(tree, name)
    except jinja2.TemplateNotFound:
        raise TemplateError(f"it includes {name!r}, which is not there") from None
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"{name}, line {error.lineno}: {error.message}") from None
    return tree


def _read_of(node: nodes.Node, loops: Mapping[str, str]) -> Iterator[str]:
    """What is read of values: 'identity.name'; `loops` says what the variables of loops are."""
    if isinstance(node, nodes.Getattr) and (path := _path(node, loops)) is not None:
        yield path
    if isinstance(node, nodes.For):
        through = _path(node.iter, loops)
        names = dict.fromkeys(_targets(node.target), f"{through}[]")
        yield from _read_of(node.iter, loops)
        inside = {**loops, **names, "loop": ""}
        for child in (*node.body, *node.else_, *([node.test] if node.test else [])):
            yield from _read_of(child, inside)
        return
    for child in node.iter_child_nodes():
        yield from _read_of(child, loops)


def _targets(node: nodes.Node) -> list[str]:
    """The variables that a loop sets: one, or those of a tuple."""
    inside = (node, *node.find_all(nodes.Name))
    return [one.name for one in inside if isinstance(one, nodes.Name)]


def _path(node: nodes.Node, loops: Mapping[str, str]) -> str | None:
    """'turns[].text' of an expression that is one; None of a computed value, or of `loop`'s."""
    if isinstance(node, nodes.Name):
        return loops.get(node.name, node.name) or None
    if isinstance(node, nodes.Getattr):
        before = _path(node.node, loops)
        return None if before is None else f"{before}.{node.attr}"
    if isinstance(node, nodes.Getitem):
        before = _path(node.node, loops)
        return None if before is None else f"{before}[]"
    if isinstance(node, nodes.Call | nodes.Filter):
        return None if node.node is None else _path(node.node, loops)
    return None
