"""gdb commands that show the scheduler of a machine. `source scripts/gmp.py` loads them. `cargo run -- --gdb` prints a gdb
command that does so. With a program on the host, the script only keeps gdb from stopping at each preemption.

    gmp goroutines        all Gs that are alive: their status, what they wait for, which G spawned them, and the line of the
                          program at which they are
    gmp machines          all Ms: their P and G
    gmp processors        the Ps that an M holds
    gmp backtrace ID      where a G that does not run will continue, and the calls that led there

The script reads the offsets of fields from the machine's memory (GMP_LAYOUT, see gmp-sched/src/report/debugger.rs). So it needs
no type information, which an optimised build does not have.
"""

import os
import re

import gdb

# The fields of `Layout`, in order. The slice with the texts of the wait reasons follows them.
FIELDS = """scheduler_goroutines scheduler_machines goroutine_next goroutine_id goroutine_status goroutine_wait_reason
goroutine_creator goroutine_context goroutine_stack_top goroutine_stack_bytes machine_next machine_id machine_current machine_processor processor_id
processor_status processor_tick""".split()

STATUS = {0: "idle", 1: "runnable", 2: "running", 3: "syscall", 4: "waiting", 6: "dead"}
DEAD = 6
PROCESSOR_STATUS = {0: "idle", 1: "running", 2: "syscall", 3: "stopped", 4: "stopped in syscall", 5: "dead"}

MOST_FRAMES = 64

# The signal by which threads of the host preempt Gs (`native::set_preemption`).
gdb.execute("handle SIGURG nostop noprint", to_string=True)


def memory(address, length):
    return int.from_bytes(gdb.selected_inferior().read_memory(address, length).tobytes(), "little")


def word(address):
    return memory(address, 8)


def words(slice_address):
    """Returns the strings of a slice of strings. The slice and each string consist of an address and a length."""
    strings = range(word(slice_address), word(slice_address) + 16 * word(slice_address + 8), 16)
    memory_of = gdb.selected_inferior().read_memory
    return [memory_of(word(at), word(at + 8)).tobytes().decode() if word(at + 8) else "" for at in strings]


def symbol(name):
    # `info address` works without debug information, and in the same way for every language. An expression does not.
    return int(re.search(r"0x[0-9a-f]+", gdb.execute(f"info address {name}", to_string=True)).group(), 16)


class Scheduler:
    """The state of the scheduler at this moment."""

    def __init__(self):
        table = symbol("GMP_LAYOUT")
        self.at = {field: word(table + 8 * index) for index, field in enumerate(FIELDS)}
        self.reasons = words(table + 8 * len(FIELDS))
        self.address = word(symbol("GMP_SCHEDULER"))
        if not self.address:
            raise gdb.GdbError("the scheduler is not up yet")

    def chain(self, head, link):
        item = word(self.address + self.at[head])
        while item:
            yield item
            item = word(item + self.at[link])

    def goroutines(self):
        for g in self.chain("scheduler_goroutines", "goroutine_next"):
            if self.status(g) != DEAD:
                yield g

    def machines(self):
        return self.chain("scheduler_machines", "machine_next")

    def id(self, g):
        return word(g + self.at["goroutine_id"])

    def status(self, g):
        # The upper three bits are set if a waiting G is sampled, is in a bubble, or is locked to its M.
        return memory(g + self.at["goroutine_status"], 1) & 0x1F

    def stack(self, g):
        top = word(g + self.at["goroutine_stack_top"])
        return range(top - word(g + self.at["goroutine_stack_bytes"]), top)

    def describe(self, g):
        status = STATUS.get(self.status(g), "?")
        reason = memory(g + self.at["goroutine_wait_reason"], 1)
        if status == "waiting" and 0 < reason < len(self.reasons):
            status = self.reasons[reason]
        creator = word(g + self.at["goroutine_creator"])
        return f"goroutine {self.id(g)} [{status}]" + (f" created by goroutine {creator}" if creator else "")

    def current(self, m):
        return word(m + self.at["machine_current"])

    def processor(self, m):
        return word(m + self.at["machine_processor"])

    def processor_id(self, p):
        return memory(p + self.at["processor_id"], 4)


def function(pc):
    """Returns the name of the function that contains an address."""
    name = gdb.execute(f"info symbol {pc:#x}", to_string=True).split(" in section")[0].strip()
    # Remove the hash at the end of a Rust symbol, and the offset.
    return re.sub(r"(::h[0-9a-f]{16})?( \+ \d+)?$", "", name)


def place(pc):
    """Returns an address with its function and line."""
    line = gdb.find_pc_line(pc)
    where = f" ({line.symtab.filename}:{line.line})" if line.symtab else ""
    return f"{pc:#018x} {function(pc)}{where}"


def frames(context):
    """Yields the program counters of a saved context, whose words are those of `SavedContext`. If the context has begun, its
    RBX and RBP are on its stack."""
    stack_pointer, goes_on, goes_on_later = (word(context + 8 * index) for index in range(3))
    if function(goes_on).startswith("gmp_sched::context::x86_64::detour"):
        goes_on = goes_on_later
    yield goes_on
    if function(goes_on) == "gmp_sched::context::x86_64::start":
        return
    frame = word(stack_pointer + 8)
    for _ in range(MOST_FRAMES):
        if not frame or frame % 8:
            return
        address = word(frame + 8)
        if not address:
            return
        # The instruction of the call is before the address to which the call returns.
        yield address - 1
        frame = word(frame)


# The folders of the kernel and of the scheduler.
WORKSPACE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOT_OF_PROGRAM = [os.path.join(WORKSPACE, part, "") for part in ("boot", "gmp-sched", "kernel")]
NOT_OF_PROGRAM += ["/rustc/", "/rustlib/src/", "/registry/src/", "/git/checkouts/"]


def own(symtab):
    """Whether a source file belongs to the program, and not to the kernel or a library."""
    return symtab is not None and not any(part in symtab.fullname() for part in NOT_OF_PROGRAM)


def own_line(pc):
    """Returns the line of the program that contains an address, or that calls the inlined function that contains it. Returns
    `None` if the address is not in code of the program."""
    line = gdb.find_pc_line(pc)
    if own(line.symtab):
        return f"{line.symtab.filename}:{line.line}"
    try:
        block = gdb.block_for_pc(pc)
    except RuntimeError:
        return None
    while block is not None and not block.is_global:
        if block.function is not None and own(block.function.symtab):
            # The last line of this function before the address is the line of the call.
            table = block.function.symtab.linetable()
            before = [(entry.pc, entry.line) for entry in table if block.start <= entry.pc <= pc]
            if before:
                return f"{block.function.symtab.filename}:{max(before)[1]}"
        block = block.superblock
    return None


def running_line(stack):
    """Returns the line of the program at which a G is that runs. `stack` is the range of addresses of its stack."""
    selected = gdb.selected_thread()
    try:
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            frame = gdb.newest_frame()
            if int(frame.read_register("rsp")) not in stack:
                continue
            while frame is not None:
                line = frame.find_sal()
                if own(line.symtab):
                    return f"{line.symtab.filename}:{line.line}"
                frame = frame.older()
    finally:
        selected.switch()
    return None


class Gmp(gdb.Command):
    """Gs, Ms and Ps of the machine: gmp goroutines | machines | processors | backtrace ID."""

    def __init__(self):
        super().__init__("gmp", gdb.COMMAND_STATUS, prefix=True)

    def invoke(self, argument, from_tty):
        raise gdb.GdbError("gmp goroutines | machines | processors | backtrace ID")


class Goroutines(gdb.Command):
    """All Gs that are alive."""

    def __init__(self):
        super().__init__("gmp goroutines", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        scheduler = Scheduler()
        running = {scheduler.current(m) for m in scheduler.machines()}
        for g in scheduler.goroutines():
            print(scheduler.describe(g))
            if g in running:
                line = running_line(scheduler.stack(g))
            else:
                lines = map(own_line, frames(g + scheduler.at["goroutine_context"]))
                line = next((line for line in lines if line), None)
            if line:
                print(f"  in {line}")


class Machines(gdb.Command):
    """All Ms, with their P and the G that runs on them."""

    def __init__(self):
        super().__init__("gmp machines", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        scheduler = Scheduler()
        for m in scheduler.machines():
            p, g = scheduler.processor(m), scheduler.current(m)
            name = memory(m + scheduler.at["machine_id"], 4)
            held = f"P{scheduler.processor_id(p)}" if p else "no P"
            runs = f"goroutine {scheduler.id(g)}" if g else "no G"
            print(f"M{name}: {held}, {runs}")


class Processors(gdb.Command):
    """The Ps that an M holds."""

    def __init__(self):
        super().__init__("gmp processors", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        scheduler = Scheduler()
        for m in scheduler.machines():
            p = scheduler.processor(m)
            if p:
                status = PROCESSOR_STATUS.get(memory(p + scheduler.at["processor_status"], 4), "?")
                tick = word(p + scheduler.at["processor_tick"])
                machine = memory(m + scheduler.at["machine_id"], 4)
                print(f"P{scheduler.processor_id(p)} [{status}] on M{machine}, tick {tick}")


class Backtrace(gdb.Command):
    """Where a G is that does not run: gmp backtrace ID."""

    def __init__(self):
        super().__init__("gmp backtrace", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        scheduler = Scheduler()
        wanted = [g for g in scheduler.goroutines() if str(scheduler.id(g)) == argument.strip()]
        if not wanted:
            raise gdb.GdbError(f"no goroutine {argument} is alive")
        g = wanted[0]
        print(scheduler.describe(g))
        if any(scheduler.current(m) == g for m in scheduler.machines()):
            raise gdb.GdbError("it is on a CPU: `info threads`, `thread N`, `backtrace`")
        for number, address in enumerate(frames(g + scheduler.at["goroutine_context"])):
            print(f"#{number:<3}{place(address)}")


Gmp()
Goroutines()
Machines()
Processors()
Backtrace()
