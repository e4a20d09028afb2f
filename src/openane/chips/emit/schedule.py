"""Header and hazard fields: what the firmware logs, where parts of a program begin and end, and which earlier task an
operand waits for.

None of these fields changes a result when tasks are executed one after another. Evidence: the recorded programs of
Apple's compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openane.chips.emit.estimate import microseconds
from openane.chips.emit.flow import Flow, Producer
from openane.chips.emit.latest import Latest
from openane.chips.emit.operands import StoredAccess, format_fields, packed_strides, stored, stride_fields
from openane.chips.emit.policy import Policy
from openane.chips.emit.rings import Range, TilePlan
from openane.engine import (
    Access,
    Activation,
    CoefficientSection,
    NeuralOperation,
    Operation,
    PassThrough,
    Space,
    sources,
)
from openane.registers import Fields

ENGINES = ("Conv", "Planar")
DEPENDENT = {"Conv": 1, "Planar": 2}


def coefficient_writers(operations: Sequence[Operation], scratch: int) -> list[tuple[int, ...]]:
    """The value of `dependency_names` for each task: the latest one before it whose result in slot `scratch` holds some
    of its coefficients, 0 without one."""
    latest, found = Latest(), list[tuple[int, ...]]()
    for number, operation in enumerate(operations):
        writer: tuple[int, ...] = ()
        if (section := _from_scratch(operation, scratch)) is not None:
            writer = (latest.over(section.streams.start, section.streams.end) or 0,)
        found.append(writer)
        if operation.result.space is Space.MEMORY and operation.result.slot == scratch:
            latest.write(*operation.result.span, number)
    return found


def _from_scratch(operation: Operation, scratch: int) -> CoefficientSection | None:
    """The section of an operation's coefficients that an earlier task wrote."""
    coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
    sections = () if coefficients is None else coefficients.sections
    return next((section for section in sections if section.slot == scratch), None)


def header_fields(operation: Operation, flow: Flow, first: bool, last: bool, policy: Policy,
                  exponents: bool = False) -> Fields:
    """Rules: memory flags equal the DMA enables; SPL where a part of the program begins, TSR and TSE where it ends;
    `first` and `last`: it is the program's. There is a DTID (see `dependency_names`) where an earlier task writes the
    coefficients. `exponents`: it has a table that takes numbers apart (see there), and logs less."""
    place = 0 if first and last else 1 if first else 3 if last else 2
    debug = (policy.logs.plain if _plain_copy(operation) else policy.logs.debug)[place]
    fields: Fields = {
        "Header.Next.ExeCycles": microseconds(operation, policy),
        "Header.Control.SPL": int(flow.begins), "Header.Control.TSE": int(flow.ends),
        "Header.Control.TSR": int(flow.ends), "Header.Control.DPC": int(flow.result_stated),
        "Header.Control.SPC": int(flow.source_stated), "Header.Control.DisallowAbort": int(flow.planar_after),
        "Header.Control.SrcLoc": int(any(a.space is Space.MEMORY for a in sources(operation))),
        "Header.Control.DstLoc": int(operation.result.space is Space.MEMORY),
        "Header.LogEvents.Events": policy.logs.events[place],
        "Header.DebugLogEvents.Events": debug & ~policy.logs.exponents if exponents else debug,
    }
    if policy.frames is None:
        fields |= {"NE.KernelCfg.NextPlanar": int(flow.planar_after),
                   "NE.KernelCfg.PreviousPlanar": int(flow.planar_before)}
    else:
        fields["Header.LogEvents.High"] = policy.logs.high[place]
    if _from_scratch(operation, policy.limits.slots.scratch) is not None:
        fields |= {"Header.Control.TDE": 1, "Header.Dependency.DTID": 0}
    return fields


def dependency_names(operation: Operation, scratch: int) -> list[str]:
    """Rule: the DTID names the task that wrote the coefficients; none states another."""
    return [] if _from_scratch(operation, scratch) is None else ["Header.Dependency.DTID"]


def _plain_copy(operation: Operation) -> bool:
    """Neural-engine copies the compiler put in log no event of an operation of the model."""
    return (isinstance(operation, PassThrough) and operation.coefficients is None
            and operation.post.activation is Activation.NONE and operation.post.scale == 1.0)


def view_fields(flow: Flow, policy: Policy) -> Fields:
    """Rule: L2 strides of extents of 1 follow the view of the task that wrote the tensor or reads all of it. Framed
    tasks do not state them."""
    if policy.frames is not None:
        return {}
    return {f"L2.{register}.Stride": stride for register, stride in flow.strides.items()}


def stated_fields(operation: Operation, flow: Flow, policy: Policy) -> Fields:
    """Rule: an operand in L2 that is stated as memory names the scratch slot, its surface's strides and its format. No
    framed task states one so."""
    fields: Fields = {}
    if policy.frames is not None:
        return fields
    scratch = policy.limits.slots.scratch
    if flow.source_stated:
        source = sources(operation)[0]
        view = stored(source, "the first operand", may_swap=True, may_broadcast=True)
        fields |= {"Header.Bases.RBase0": scratch, "Header.Bases.RBase0En": 1, "L2.SourceCfg.DMAFmt": 1,
                   "TileDMASrc.DMAConfig.DependencyMode": policy.hints.stated}
        fields |= _surface(source, view, "TileDMASrc.", policy)
    if flow.result_stated:
        result = operation.result
        view = stored(result, "the result", may_swap=True, may_broadcast=False)
        fields |= {"Header.Bases.WBase": scratch, "Header.Bases.WBaseEn": 1,
                   "TileDMADst.Fmt.ZeroPadFirst": 1, "TileDMADst.Fmt.ZeroPadLast": 1}
        fields |= _surface(result, view, "TileDMADst.", policy)
    return fields


def _surface(access: Access, view: StoredAccess, prefix: str, policy: Policy) -> Fields:
    return {**stride_fields(prefix, *packed_strides(view, access.dtype.size, policy.limits)),
            **format_fields(access, f"{prefix}Fmt", policy.idle.truncate, idle=False)}


def hint_fields(operation: Operation, flow: Flow, policy: Policy) -> Fields:
    """Rule: cache hints of a streamed operand that other tasks read too, of scratch that is read, of scratch that is
    written."""
    source, result = sources(operation)[0], operation.result
    hints: Mapping[str, int] = {}
    stated, scratch = policy.hints, policy.limits.slots.scratch
    if source.space is Space.MEMORY:
        hints = stated.from_scratch if source.slot == scratch else (
            stated.read_again if flow.read_again else stated.read_earlier if flow.read_earlier else {})
    fields: Fields = {f"TileDMASrc.DMAConfig.{name}": value for name, value in hints.items()}
    if result.space is Space.MEMORY and result.slot == scratch:
        fields |= {f"TileDMADst.DMAConfig.{name}": value for name, value in stated.to_scratch.items()}
    return fields


def _waits(direct: Sequence[Producer], own: str, other: str, plan: TilePlan, earlier: TilePlan) -> Fields:
    """What a task waits for that reads what the task before has made or kept."""
    kept = [producer.kept for producer in direct]
    over = "first" in plan.rings and _touch(plan.spans.get("first"), earlier.spans.get("first"))
    waits: Fields = {} if all(kept) else {f"L2.SourceCfg.Alias{other}Rslt": 1}
    if other == "Conv" and (over or (own != other and any(kept))):
        waits |= {f"L2.SourceCfg.Alias{other}Src": 1}
    return waits


def hazard_fields(index: int, operations: Sequence[Operation], flow: Flow, plans: Sequence[TilePlan],
                  policy: Policy) -> Fields:
    """The hazards of a task (see `_hazards`). Rule where the second operand has a configuration word of its own: what
    it waits for in L2 stands there; where it or nothing passes through L2 beside a streamed first operand, what that
    one waits for does too."""
    fields = _hazards(index, operations, flow, plans)
    if policy.frames is None or not policy.frames.second_apart:
        return fields
    first, *others = sources(operations[index])
    aliases = {name: value for name, value in fields.items() if name.startswith("L2.SourceCfg.Alias")}
    if others and others[0].space is Space.L2:
        aliases = _second_waits(aliases, flow.producers[1], operations)
        if first.space is not Space.L2:
            fields = {name: value for name, value in fields.items() if name not in aliases}
    elif not others and first.space is not Space.MEMORY:
        return fields
    return fields | {name.replace("SourceCfg", "SecondCfg"): value for name, value in aliases.items()}


def _second_waits(aliases: Fields, producer: Producer | None, operations: Sequence[Operation]) -> Fields:
    """Those of the hazards that are the second operand's: the result of the engine that made it."""
    own = _engine(operations[producer.task]) if producer is not None else ""
    return {name: value for name, value in aliases.items() if name == f"L2.SourceCfg.Alias{own}Rslt"}


def _hazards(index: int, operations: Sequence[Operation], flow: Flow, plans: Sequence[TilePlan]) -> Fields:
    """Rules. The first task waits for all that ran before. A task that follows the one before patch by patch says so
    (Dependent: 1 a neural-engine task, 2 a planar one). One that reads the result of the task before waits for it, and
    for that one's neural source where it reads or streams over it. The first task of a later part waits for all
    of its own engine, and for the other engine's result where it writes over it. A task that reads nothing of the task
    before waits for it where it uses its bytes and runs on another engine, and for a result of the other engine nobody
    has waited for (no sample of either: the safe choice)."""
    if index == 0:
        return _aliases("Source", *ENGINES) | _aliases("Result", *ENGINES)
    own, other = _engine(operations[index]), _engine(operations[index - 1])
    late: Fields = {f"L2.SourceCfg.Alias{'Planar' if own == 'Conv' else 'Conv'}Rslt": 1} if flow.late else {}
    if flow.pipelined:
        return {"L2.SourceCfg.Dependent": DEPENDENT[other]}
    if flow.begins and not flow.source_stated:
        fields = _aliases("Source", own) | _aliases("Result", own)
        return fields if other == own else fields | _overlaps(other, plans[index], plans[index - 1], ("Rslt",))
    direct = [producer for producer in flow.producers if producer is not None and producer.task == index - 1]
    if direct:
        return late | _waits(direct, own, other, plans[index], plans[index - 1])
    return late if own == other else late | _overlaps(other, plans[index], plans[index - 1], ("Src", "Rslt"))


def _engine(operation: Operation) -> str:
    return "Conv" if isinstance(operation, NeuralOperation) else "Planar"


def _aliases(side: str, *engines: str) -> Fields:
    return {f"L2.{side}Cfg.Alias{engine}{what}": 1 for engine in engines for what in ("Src", "Rslt")}


def _overlaps(engine: str, plan: TilePlan, before: TilePlan, what: Sequence[str]) -> Fields:
    """Alias bits of the sides whose bytes the task before uses."""
    mine = {"Source": ("first", "second"), "Result": ("result",)}
    theirs = {"Src": ("first", "second"), "Rslt": ("result",)}
    return {f"L2.{side}Cfg.Alias{engine}{other}": 1 for side, parts in mine.items() for other in what
            if any(_touch(plan.spans.get(a), before.spans.get(b)) for a in parts for b in theirs[other])}


def _touch(a: Range | None, b: Range | None) -> bool:
    return a is not None and b is not None and a[0] < b[1] and b[0] < a[1]
