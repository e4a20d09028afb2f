"""`ane simdriver -- COMMAND`: what an unmodified program sees of the node, and what becomes of it and its buffers."""

from __future__ import annotations

import errno
import json

from support.supervised import client


def test_the_node_is_found_asked_about_and_opened() -> None:
    found = client("""
        status, folder = os.stat(NODE), os.open("/dev/accel", os.O_RDONLY | os.O_DIRECTORY)
        os.chdir("/dev")
        ways = [lambda: os.open(NODE, os.O_RDWR), lambda: os.open("accel/accel0", os.O_RDONLY),
                lambda: os.open("accel0", os.O_RDWR, dir_fd=folder), lambda: os.open("//dev/../dev/accel/./accel0", 2)]
        print(json.dumps({
            "listed": os.listdir("/dev/accel"), "char": stat.S_ISCHR(status.st_mode), "folder": os.path.isdir("accel"),
            "access": [os.access(path, os.R_OK | os.W_OK) for path in (NODE, "/dev/accel/accel1")],
            "versions": [version(way()) for way in ways],
            "codes": [code_of(os.open, path, flags) for path, flags in (
                ("/dev/accel/accel1", os.O_RDWR), ("/dev/accel/accel63", os.O_RDWR), (NODE, os.O_CREAT | os.O_EXCL),
                (NODE, os.O_DIRECTORY), ("/dev/accel", os.O_RDWR), (NODE, os.O_PATH))],
            "inherits": [os.get_inheritable(way()) for way in ways], "other": code_of(version, 0)}))
    """)
    seen = json.loads(found.output)
    assert seen.pop("versions") == [["ane", "20230103", "Apple Neural Engine driver"]] * 4
    assert seen == {"listed": ["accel0"], "char": True, "folder": True, "access": [True, False],
                    "codes": [errno.ENOENT, errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR,
                              errno.EOPNOTSUPP],
                    "inherits": [False] * 4, "other": errno.ENOTTY}
    assert (found.kinds, found.report["leaked_bytes"], found.errors) == ([], 0, "")


def test_requests_reach_the_driver_and_its_errors_the_program() -> None:
    found = client("""
        fd, reader = open_node(), open_node(os.O_RDONLY)
        (first, offset), (second, _), (third, place) = init(fd, 40000), init(fd), init(reader)
        memory = mmap.mmap(fd, 49152, offset=offset)
        memory[:5] = b"hello"
        page = mmap.mmap(-1, 4096)
        page[:24] = struct.pack("<IIQQ", 0, 0, 16384, 0)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), 4096, mmap.PROT_READ)
        ioctl = ctypes.CDLL(None, use_errno=True).ioctl
        def raw(request, where):
            return ctypes.get_errno() if ioctl(fd, ctypes.c_ulong(request), ctypes.c_void_p(where)) < 0 else 0
        pointer = struct.pack("<iiiiQQQQQQ", 0, 0, 0, 0, 3, 16, 0, 0, 0, 0)
        codes = {
            "pad": code_of(init, fd, pad=1), "empty": code_of(init, fd, 0), "huge": code_of(init, fd, 1 << 50),
            "unknown": code_of(free, fd, 77), "free pad": code_of(free, fd, first, pad=1),
            "submit": code_of(submit, fd, {0: second, 1: first}, bootstrap=first),
            "foreign handle": code_of(free, reader, second), "no request": code_of(fcntl.ioctl, fd, 0xC0086477),
            "other type": code_of(fcntl.ioctl, fd, 0x5401), "null": raw(INIT, 0), "read-only": raw(INIT, address),
            "text": code_of(fcntl.ioctl, fd, VERSION, bytearray(pointer)),
            "map": code_of(mmap.mmap, reader, 16384, offset=place, prot=mmap.PROT_WRITE)}
        memory.close()
        free(fd, first)
        free(fd, second)
        free(reader, third)
        print(json.dumps(codes))
    """)
    codes = json.loads(found.output)
    expected = dict.fromkeys(("pad", "unknown", "free pad", "submit", "foreign handle", "no request"), errno.EINVAL)
    expected |= {"empty": errno.ENOSPC, "huge": errno.ENOMEM, "other type": errno.ENOTTY,
                 "text": errno.EFAULT, "null": errno.EFAULT, "read-only": errno.EFAULT, "map": errno.EACCES}
    assert codes == expected
    assert found.kinds == ["leak"]  # a buffer object whose handle could not be written exists all the same
    assert found.report["leaked_bytes"] == 0


def test_a_file_lives_as_long_as_anybody_has_it() -> None:
    """Duplicates, children, mappings keep it; the end of the last, by whatever death, closes it."""
    found = client("""
        def drop(fd):  # a mapping alone is left
            handle, offset = init(fd)
            memory = mmap.mmap(fd, 16384, offset=offset)
            os.close(fd)
            return memory
        memory = drop(open_node())  # 1: leaks when unmapped
        fd = open_node()            # 2: the child has it after the parent has not, and is killed
        handle, _ = init(fd)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.read(read, 1)
            init(fd, 32768)
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(fd)
        os.write(write, b"x")
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        memory[:3] = b"abc"
        del memory
        fd = open_node()
        copy = os.dup(fd)
        os.close(fd)
        free(copy, init(copy)[0])  # 3: clean
        os.close(copy)
        os.execv("/bin/sh", ["sh", "-c", "exec 3<>/dev/accel/accel0; sleep 0.01; exit 0"])
    """)
    texts = [report["text"].partition(": ")[2].partition(";")[0] for report in found.report["reports"]]
    assert texts == ["closed without freeing handle 1 (16384 bytes), handle 2 (32768 bytes)",
                     "closed without freeing handle 1 (16384 bytes)"]
    assert found.report["leaked_bytes"] == 0


def test_faithful_mode_keeps_what_is_not_freed() -> None:
    found = client("init(open_node(), 100000)", options=("--mode", "faithful"))
    assert (found.kinds, found.report["leaked_bytes"]) == (["leak"], 7 * 16384)


def test_processes_killed_at_random_moments_harm_nobody() -> None:
    """Each writes its own pattern, checks it and frees it; some are killed while they do."""
    found = client("""
        import random
        rng = random.Random(1)
        def work(number, rounds):
            for turn in range(rounds):
                fd = open_node()
                size = 16384 * rng.randint(1, 4)
                handle, offset = init(fd, size)
                memory = mmap.mmap(fd, size, offset=offset)
                assert memory[:1] in (b"\\x7f", b"\\x00")
                memory[:] = bytes([number]) * size
                assert memory[:] == bytes([number]) * size
                memory.close()
                free(fd, handle)
                os.close(fd)
        children = {}
        for number in range(12):
            victim = number % 2
            child = os.fork()
            if not child:
                work(number, 100_000 if victim else 15)
                os._exit(0)
            children[child] = victim
        for child, victim in children.items():
            if victim:
                time.sleep(rng.random() / 20)
                os.kill(child, signal.SIGKILL)
        statuses = dict(os.waitpid(child, 0) for child in children)
        assert all(statuses[child] == (signal.SIGKILL if victim else 0) for child, victim in children.items()), statuses
    """)
    assert set(found.kinds) <= {"leak"}
    assert len(found.kinds) <= 6
    assert found.report["leaked_bytes"] == 0


def test_threads_share_the_node() -> None:
    found = client("""
        from threading import Thread
        fd, done = open_node(), []
        def work(number):
            for _ in range(40):
                handle, offset = init(fd)
                memory = mmap.mmap(fd, 16384, offset=offset)
                memory[:] = bytes([number]) * 16384
                assert code_of(submit, fd, {0: handle}, text=1 << 20, bootstrap=handle) == 22
                assert memory[:] == bytes([number]) * 16384
                memory.close()
                free(fd, handle)
            done.append(number)
        threads = [Thread(target=work, args=(number,)) for number in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sorted(done) == list(range(8))
    """)
    assert (found.kinds, found.report["leaked_bytes"]) == ([], 0)


def test_handled_signals_repeat_no_request() -> None:
    """A call that waits for its answer when a signal comes is not made a second time."""
    found = client("""
        alarms = []
        signal.signal(signal.SIGALRM, lambda *_: alarms.append(1))
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
        fd = open_node()
        while len(alarms) < 400:
            free(fd, init(fd)[0])
            os.close(open_node())
        signal.setitimer(signal.ITIMER_REAL, 0)
    """)
    assert (found.kinds, found.report["leaked_bytes"]) == ([], 0)


def test_a_program_without_descriptors_gets_none() -> None:
    found = client("""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
        opened = []
        def fill():
            while True:
                opened.append(open_node())
        print(code_of(fill))
        os.close(opened.pop())
        opened.append(open_node())
        [init(fd) for fd in opened]
        print(len(opened))
    """)
    code, count = map(int, found.output.split())
    assert code == errno.EMFILE
    assert found.kinds == ["leak"] * count
