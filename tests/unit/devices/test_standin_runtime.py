"""The stand-in's Objective-C runtime, Foundation and IOSurface, entered through C function pointers."""

from __future__ import annotations

import ctypes
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.standin import Client

from openane.devices.macos.standin import SimulatedSymbols
from openane.devices.macos.standin.types import split_types, with_offsets
from openane.devices.macos.symbols import CORE_FOUNDATION, FOUNDATION, IO_SURFACE, NEURAL_ENGINE, OBJC
from openane.errors import DeviceError, DeviceUnavailable


def test_classes_come_with_their_library() -> None:
    symbols = SimulatedSymbols()
    find = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(symbols.function(OBJC, "objc_getClass"))
    assert find(b"NSObject")
    assert not find(b"NSString")
    assert not find(b"_ANEInMemoryModel")
    symbols.load(NEURAL_ENGINE)
    assert find(b"NSString")
    assert find(b"_ANEInMemoryModel")
    assert not find(b"NoSuchClass")


@pytest.mark.parametrize(("types", "encoding"), [
    ("B@:I@@^@", "B44@0:8I16@20@28^@36"), ("@@:@@@", "@40@0:8@16@24@32"), ("v@:B", "v20@0:8B16"),
    ("@@:^{__IOSurface=}", "@24@0:8^{__IOSurface=}16"), ("@@:r^vQ", "@32@0:8r^v16Q24"), ("r*@:", "r*16@0:8")])
def test_type_encodings_are_those_of_the_runtime(types: str, encoding: str) -> None:
    assert with_offsets(types) == encoding
    assert "".join(split_types(types)) == types


def test_encodings_are_found_for_classes_and_instances() -> None:
    client = Client()
    receiver = client.cls("_ANEInMemoryModel")
    meta = client.call(OBJC, "object_getClass", "##", receiver)
    found = {}
    for owner, name in ((receiver, "evaluateWithQoS:options:request:error:"), (meta, "inMemoryModelWithDescriptor:")):
        method = client.call(OBJC, "class_getInstanceMethod", "^#:", owner, client.selector(name))
        found[name] = client.call(OBJC, "method_getTypeEncoding", "*^", method)
    assert list(found.values()) == [b"B44@0:8I16@20@28^@36", b"@24@0:8@16"]
    assert not client.call(OBJC, "class_getInstanceMethod", "^#:", receiver, client.selector("noSuchMethod"))
    assert not client.call(OBJC, "class_respondsToSelector", "B#:", receiver, client.selector("getUUID"))


def test_arguments_arrive_whatever_their_width_and_place() -> None:
    """The tenth argument lies on the stack, narrow ones leave the rest of their register undefined."""
    client = Client()
    pool = client.push()
    program = client.runtime.make("_ANEProgramForEvaluation")
    value, error = ctypes.c_bool(True), ctypes.c_void_p(0)
    done = client.send(program.handle, "processRequest:model:qos:qIndex:modelStringID:options:returnValue:error:",
                       "B@@Ii@@^^", None, None, 21, -1, None, None, ctypes.addressof(value), ctypes.addressof(error))
    assert not done
    assert "must be an _ANEInMemoryModel" in client.ended[0]
    for kind, selector, given_value in (("q", "numberWithLongLong:", -5), ("I", "numberWithUnsignedInt:", 2**32 - 1),
                                        ("B", "numberWithBool:", True), ("Q", "numberWithUnsignedLongLong:", 2**63)):
        number = client.send("NSNumber", selector, f"@{kind}", given_value)
        getter = selector.removeprefix("numberWith").rstrip(":")
        assert client.send(number, f"{getter[0].lower()}{getter[1:]}Value", kind) == given_value
    client.pop(pool)


def test_a_result_defines_no_more_than_its_type() -> None:
    client = Client()
    pool = client.push()
    no = client.number(0)
    assert client.send(no, "boolValue", "B") is False
    assert client.send(no, "boolValue", "Q") != 0
    assert client.send(client.number(7), "unsignedIntValue", "I") == 7
    client.pop(pool)


@given(st.recursive(st.one_of(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5),
                              st.integers(-2**63, 2**63 - 1), st.binary(max_size=5)),
                    lambda inner: st.one_of(st.lists(inner, max_size=3),
                                            st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)),
                    max_leaves=6))
def test_foundation_values_come_back(value: object) -> None:
    from openane.devices.macos.standin.foundation import to_python

    client = Client()
    pool = client.push()

    def made(part: object) -> int:
        if isinstance(part, str):
            return client.string(part)
        if isinstance(part, bytes):
            return client.data(part)
        if isinstance(part, list):
            return client.array([made(each) for each in part])
        if isinstance(part, dict):
            return client.dictionary({client.string(key): made(each) for key, each in part.items()})
        assert isinstance(part, int)
        return client.number(part)

    assert to_python(client.runtime.instance(made(value))) == value
    client.pop(pool)
    assert client.symbols.problems() == ()
    assert not client.ended


def test_pools_and_owners_are_counted() -> None:
    client = Client()
    outer = client.push()
    kept = client.string("kept")
    client.call(OBJC, "objc_retain", "@@", kept)
    inner = client.push()
    client.string("dropped")
    assert len(client.symbols.problems()) == 3  # two strings, and the pools
    client.pop(outer)  # drains the inner one too
    (leak,) = client.symbols.problems()
    assert "__NSCFString" in leak
    assert "1 owners" in leak
    client.call(OBJC, "objc_release", "v@", kept)
    assert client.symbols.problems() == ()
    client.pop(inner)
    assert "popped already" in client.ended[0]


def test_without_a_pool_objects_leak_and_are_reported() -> None:
    client = Client()
    client.string("no pool")
    assert len(client.symbols.problems()) == 2


def test_pools_belong_to_threads() -> None:
    client = Client()
    pool = client.push()
    thread = threading.Thread(target=client.pop, args=(pool,))
    thread.start()
    thread.join()
    assert "not one of this thread" in client.ended[0]
    client.pop(pool)


@pytest.mark.parametrize("selector", ["length", "retain"])
def test_a_released_object_takes_no_messages(selector: str) -> None:
    client = Client()
    pool = client.push()
    string = client.string("gone")
    client.pop(pool)
    client.send(string, selector, "Q")
    assert "deallocated instance" in client.ended[0]


def test_releasing_too_often_is_found_when_the_pool_ends() -> None:
    client = Client()
    pool = client.push()
    client.call(OBJC, "objc_release", "v@", client.string("twice"))
    client.pop(pool)
    assert "once too often" in client.symbols.problems()[0]


def test_collections_keep_what_they_hold() -> None:
    client = Client()
    pool = client.push()
    array = client.call(OBJC, "objc_retain", "@@", client.array([client.string("held")]))
    client.pop(pool)
    pool = client.push()
    assert client.text(client.send(array, "objectAtIndex:", "@Q", 0)) == "held"
    client.pop(pool)
    client.call(OBJC, "objc_release", "v@", array)
    assert client.symbols.problems() == ()


@pytest.mark.parametrize(("receiver", "selector", "types", "arguments", "reason"), [
    ("NSString", "noSuchMethod", "@", (), "+[NSString noSuchMethod]: unrecognized selector sent to class"),
    ("NSString", "stringWithUTF8String:", "@*", (None,), "NULL cString"),
    ("NSArray", "arrayWithObjects:count:", "@^Q", ((ctypes.c_void_p * 1)(0), 1), "attempt to insert nil object"),
    ("_ANEInMemoryModelDescriptor", "modelWithMILText:weights:optionsPlist:", "@@@@", (None, None, None),
     "the network must be an NSData")])
def test_exceptions_end_the_process(receiver: str, selector: str, types: str, arguments: tuple[object, ...],
                                    reason: str) -> None:
    client = Client()
    assert not client.send(receiver, selector, types, *arguments)
    assert "uncaught exception" in client.ended[0]
    assert reason in client.ended[0]


def test_messages_to_nil_and_to_no_object() -> None:
    client = Client()
    assert client.send(0, "anything", "@") is None
    assert not client.ended
    client.send(0x1234, "anything", "@")
    assert "EXC_BAD_ACCESS" in client.ended[0]


def test_class_clusters_have_private_classes() -> None:
    client = Client()
    pool = client.push()
    string = client.string("x")
    assert client.call(OBJC, "object_getClass", "#@", string) != client.cls("NSString")
    assert client.send(string, "isKindOfClass:", "B#", client.cls("NSString"))
    client.pop(pool)


def test_surfaces_are_memory_under_a_lock() -> None:
    client = Client()
    pool = client.push()
    surface = client.surface(100)
    address = client.function(IO_SURFACE, "IOSurfaceGetBaseAddress", "@@")
    lock = client.function(IO_SURFACE, "IOSurfaceLock", "i@I@")
    unlock = client.function(IO_SURFACE, "IOSurfaceUnlock", "i@I@")
    assert client.call(IO_SURFACE, "IOSurfaceGetAllocSize", "Q@", surface) == 100
    assert address(surface) is None
    assert lock(surface, 0, None) == 0
    ctypes.memset(address(surface), 7, 100)
    assert unlock(surface, 1, None) != 0  # another option than it was locked with
    assert unlock(surface, 0, None) == 0
    assert lock(surface, 1, None) == 0
    ctypes.memset(address(surface), 8, 1)
    assert unlock(surface, 1, None) == 0
    found = client.call(IO_SURFACE, "IOSurfaceLookup", "@I", client.call(IO_SURFACE, "IOSurfaceGetID", "I@", surface))
    assert found == surface
    client.release(surface, found)
    client.pop(pool)
    said = "\n".join(client.symbols.problems())
    assert "was asked for while it was not locked" in said
    assert "under a lock for reading" in said
    assert "unlocked with options 1" in said
    assert len(client.symbols.problems()) == 3


def test_writing_without_a_lock_is_noticed() -> None:
    client = Client()
    pool = client.push()
    surface = client.surface(64)
    client.call(IO_SURFACE, "IOSurfaceLock", "i@I@", surface, 0, None)
    place = client.call(IO_SURFACE, "IOSurfaceGetBaseAddress", "@@", surface)
    client.call(IO_SURFACE, "IOSurfaceUnlock", "i@I@", surface, 0, None)
    ctypes.memset(place, 1, 1)
    client.call(IO_SURFACE, "IOSurfaceLock", "i@I@", surface, 0, None)
    client.release(surface)
    client.pop(pool)
    assert [text.split(" was ", 1)[1] for text in client.symbols.problems()] == [
        "written while it was not locked", "released while it was locked"]


def test_surfaces_of_impossible_sizes_are_not_made() -> None:
    client = Client()
    pool = client.push()
    assert client.surface(0) == 0
    assert client.surface(2**40) == 0
    client.pop(pool)


def test_core_foundation_makes_the_same_objects() -> None:
    client = Client()
    value = ctypes.c_int64(-3)
    number = client.call(CORE_FOUNDATION, "CFNumberCreate", "@@q@", None, 4, ctypes.addressof(value))
    assert client.send(number, "longLongValue", "q") == -3
    text = client.call(CORE_FOUNDATION, "CFStringCreateWithCString", "@@*I", None, b"key", 0x08000100)
    callbacks = [client.symbols.data(CORE_FOUNDATION, f"kCFTypeDictionary{side}CallBacks") for side in ("Key", "Value")]
    table = client.call(CORE_FOUNDATION, "CFDictionaryCreate", "@@^^q^^", None, (ctypes.c_void_p * 1)(text),
                        (ctypes.c_void_p * 1)(number), 1, *callbacks)
    client.release(text, number)
    assert client.send(table, "count", "Q") == 1
    client.release(table)
    assert client.symbols.problems() == ()


def test_the_survey_functions_list_methods() -> None:
    client = Client()
    count = ctypes.c_uint(0)
    table = client.call(OBJC, "class_copyMethodList", "^#^", client.cls("_ANEPerformanceStats"),
                        ctypes.addressof(count))
    handles = list((ctypes.c_void_p * count.value).from_address(table))
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    free(table)
    names = {client.call(OBJC, "sel_getName", "*:", client.call(OBJC, "method_getName", ":^", each))
             for each in handles}
    assert b"hwExecutionTime" in names
    assert count.value == len(names) == 4


@pytest.mark.parametrize(("inject", "said"), [
    ("nonsense", "knows no fault 'nonsense'; it knows compile, load"), ("budget=x", "budget=x"),
    ("hang=-1", "above 0"), ("compile=odd", "failed or invalid"), ("load=2", "0 or 1"),
    ("row-alignment=0", "2 to 4096")])
def test_faults_are_explained(inject: str, said: str) -> None:
    with pytest.raises(DeviceError, match=said):
        SimulatedSymbols(inject)


def test_missing_parts_are_missing() -> None:
    symbols = SimulatedSymbols("missing-library=Espresso,missing-class=_ANERequest,missing-function=IOSurfaceLock")
    with pytest.raises(DeviceUnavailable, match="Espresso"):
        symbols.load("Espresso")
    with pytest.raises(KeyError, match="IOSurfaceLock"):
        symbols.function(IO_SURFACE, "IOSurfaceLock")
    with pytest.raises(KeyError, match="variable"):
        symbols.data(FOUNDATION, "NSNothing")
    client = Client("missing-class=_ANERequest,missing-selector=alloc,encoding=initWith:")
    assert client.cls("_ANERequest") == 0
    symbols.close()
    with pytest.raises(DeviceError, match="closed"):
        symbols.load(OBJC)
