"""Become the operator's command, under limits: `python -I -S launch.py TOKEN PARENT DATA NET CMD…`.

Run as a script of its own, standard library only. It sets what a process can only set for itself,
then is replaced by the command; so nothing of Python runs between fork and exec in ours.

TOKEN: begins the one line on stderr that says why the command could not be started (exit 127).
PARENT: our process id; when that process dies, the kernel kills the command (Linux).
DATA: bytes of private writable memory a process may map, or 0: the backstop of the watched limit.
NET: 0 for no network but a loopback of its own (Linux), else 1.
"""

import ctypes
import os
import resource
import signal
import struct
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_PDEATHSIG = 1
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
FAILED = 127


def main() -> None:
    """Never returns."""
    token, parent, data, network, *command = sys.argv[1:]
    try:
        if network == "0":
            cut_network()
        bound(int(data))
        die_with(int(parent))
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python; what it becomes must not
            signal.signal(ignored, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606  the operator's own command, no shell
    except BaseException as error:  # noqa: BLE001  whatever it is, the command did not start
        said = getattr(error, "strerror", None) or str(error)
        os.write(2, f"\n{token} {said}\n".encode("utf-8", "surrogateescape"))
        os._exit(FAILED)


def bound(data_bytes: int) -> None:
    """No core files; private memory of each process where asked for."""
    limits = [(resource.RLIMIT_CORE, 0)]
    if data_bytes:
        limits.append((resource.RLIMIT_DATA, data_bytes))
    for which, most in limits:
        _, hard = resource.getrlimit(which)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (allowed, allowed))


def die_with(parent: int) -> None:
    """Be killed when the process that started us dies, also if it did already."""
    if not sys.platform.startswith("linux"):
        return
    _libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def cut_network() -> None:
    """Leave the machine's network for an empty one whose loopback is up.

    A user namespace is made along only where the network one alone is refused: inside it, files
    of other users may be out of reach.

    Raises:
        OSError: the kernel or a sandbox around us does not allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        _unshare(CLONE_NEWNET)
    except OSError:
        _unshare(CLONE_NEWUSER | CLONE_NEWNET)
        for name, line in (
            ("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1"),
        ):  # fmt: skip
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
                file.write(line)
    _loopback_up()


def _unshare(flags: int) -> None:
    if not sys.platform.startswith("linux"):
        raise OSError(0, f"network namespaces are of Linux, this is {sys.platform}")
    if _libc().unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"unshare: {os.strerror(code)}")


def _loopback_up() -> None:
    import fcntl  # noqa: PLC0415  only where the network is off
    import socket  # noqa: PLC0415

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        ask = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, SIOCGIFFLAGS, ask), 16)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    main()
