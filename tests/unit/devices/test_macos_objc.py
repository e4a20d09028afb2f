"""The Objective-C bridge over the stand-in's runtime: encodings, checks before the first call, values both ways."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.devices.macos import interfaces
from openane.devices.macos.foundation import DEEPEST, ErrorFacts, Foundation
from openane.devices.macos.objc import ObjC, Selector, passed_types
from openane.devices.macos.standin import SimulatedSymbols
from openane.devices.macos.symbols import NEURAL_ENGINE
from openane.errors import DeviceChanged, DeviceError, DeviceUnavailable


class Bridge:
    """Runtime and Foundation over a stand-in."""

    def __init__(self, inject: str = "") -> None:
        self.symbols = SimulatedSymbols(inject)
        self.objc = ObjC(self.symbols)
        self.foundation = Foundation(self.symbols, self.objc)
        self.symbols.load(NEURAL_ENGINE)


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    made = Bridge()
    yield made
    made.symbols.close()


@pytest.mark.parametrize(("encoding", "passed"), [
    ("B40@0:8I16@20@28^@36", "B@:i@@^"), ("C44@0:8I16@20@28^@36", "B@:i@@^"), ("c24@0:8q16", "B@:q"),
    ("@24@0:8^{__IOSurface=}16", "@@:^"), ("r^v16@0:8", "^@:"), ("@40@0:8r^@16r^@24Q32", "@@:^^q"),
    ('@"NSString"16@0:8', "@@:"), ("v24@0:8@?16", "v@:@"), ("{CGRect={CGPoint=dd}{CGSize=dd}}16@0:8", "{@:"), ("", ""),
])
def test_encodings_are_compared_by_what_is_passed(encoding: str, passed: str) -> None:
    assert "".join(passed_types(encoding)) == passed


@given(st.text("@:^{}()[]\"?=+-rVBIq 0123456789", max_size=40))
def test_any_encoding_is_read(encoding: str) -> None:
    passed_types(encoding)


TYPES = st.sampled_from(["@", "I", "q", "^@", "B", "^{__IOSurface=}", "Q", "i", "*"])


@given(TYPES, st.lists(TYPES, max_size=9), st.sampled_from("rnNoORV"), st.integers(0, 400))
def test_offsets_and_qualifiers_make_no_difference(result: str, arguments: list[str], qualifier: str,
                                                   offset: int) -> None:
    known = Selector("any:", result, *arguments)
    written = f"{qualifier}{result}{offset}@0:8" + "".join(f"{qualifier}{each}{offset}" for each in arguments)
    assert passed_types(written) == passed_types(known.encoding)
    assert passed_types(f"{written}d") != passed_types(known.encoding)


def check(bridge: Bridge, table: Mapping[str, interfaces.Needed]) -> None:
    for name, needed in table.items():
        bridge.objc.check(name, *needed.factory, of_class=True)
        bridge.objc.check(name, *needed.methods)


def test_every_interface_that_is_called_is_checked(bridge: Bridge) -> None:
    for table in (interfaces.NEEDED, *interfaces.NEEDED_BY_PATH.values()):
        check(bridge, table)


@pytest.mark.parametrize(("inject", "message"), [
    ("missing-class=_ANERequest", r"class _ANERequest .*found none"),
    ("missing-selector=loadWithQoS:options:error:",
     r"-\[_ANEInMemoryModel loadWithQoS:options:error:\] .*expected B@:I@\^@, found no such method"),
    ("missing-selector=inMemoryModelWithDescriptor:", r"\+\[_ANEInMemoryModel inMemoryModelWithDescriptor:\] "),
    ("encoding=loadWithQoS:options:error:", r"loadWithQoS:options:error:\] .*expected B@:I@\^@, found B\d+@0:8I16@20Q"),
])
def test_a_changed_interface_is_refused_before_it_is_called(inject: str, message: str) -> None:
    bridge = Bridge(inject)
    with pytest.raises(DeviceChanged, match=message):
        check(bridge, interfaces.NEEDED)
    bridge.symbols.close()


def test_messages_nobody_understands_are_not_sent(bridge: Bridge) -> None:
    with bridge.objc.pool():
        text = bridge.foundation.string("x")
        with pytest.raises(DeviceChanged, match=r"\[__NSCFString fly:\]"):
            bridge.objc.send(text, Selector("fly:", "v", "@"), text)
        with pytest.raises(DeviceChanged, match="found Q16@0:8"):
            bridge.objc.send(text, Selector("length", "@"))
        assert not bridge.objc.responds(text, Selector("fly:", "v", "@"))


@pytest.mark.parametrize("name", ["objc_msgSend", "objc_autoreleasePoolPush", "class_getInstanceMethod"])
def test_a_missing_function_is_a_changed_interface(name: str) -> None:
    with pytest.raises(DeviceChanged, match=f"{name} of libobjc"):
        Bridge(f"missing-function={name}")


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
PLAIN = st.recursive(TEXT | st.integers(-2**63, 2**63 - 1) | st.binary(max_size=40),
                     lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
                     max_leaves=12)


@given(PLAIN)
def test_values_come_back_as_they_went(bridge: Bridge, value: object) -> None:
    known = bridge.foundation

    def made(each: object) -> int:
        if isinstance(each, str):
            return known.string(each)
        if isinstance(each, bytes):
            return known.data(each)
        if isinstance(each, int):
            return known.number(each)
        if isinstance(each, list):
            return known.array([made(one) for one in each])
        assert isinstance(each, dict)
        return known.dictionary({made(key): made(one) for key, one in each.items()})

    with bridge.objc.pool():
        assert known.python_value(made(value)) == value


def test_what_is_no_plain_value_is_none(bridge: Bridge) -> None:
    known = bridge.foundation
    with bridge.objc.pool():
        deep = known.array([])
        for _ in range(DEEPEST + 1):
            deep = known.array([deep])
        with pytest.raises(DeviceError, match="nested more than"):
            known.python_value(deep)
        with pytest.raises(DeviceError, match="NUL"):
            known.string("a\0b")
        assert known.python_value(0) is None
        assert known.python_value(bridge.objc.send(bridge.objc.cls("NSObject"), Selector("new", "@"))) is None
        assert known.error(known.string("no error")) == known.error(None) == \
            ErrorFacts("none", 0, "the system gave no error object")


def test_pools_leave_nothing() -> None:
    bridge = Bridge()
    with bridge.objc.pool():
        kept = bridge.objc.retain(bridge.foundation.string("kept"))
    before = len(bridge.symbols.runtime.objects)
    for _ in range(50):
        with bridge.objc.pool():
            bridge.foundation.dictionary({bridge.foundation.string("a"): bridge.foundation.array([kept])})
    assert len(bridge.symbols.runtime.objects) == before
    assert bridge.foundation.text(kept) == "kept"
    bridge.objc.release(kept)
    assert len(bridge.symbols.runtime.objects) == before - 1
    bridge.symbols.close()


def test_a_forked_process_is_refused(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(DeviceUnavailable, match="spawn"), bridge.objc.pool():
        pass
