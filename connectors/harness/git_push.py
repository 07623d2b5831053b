"""Push one commit to a branch of a remote, never by force, and say what a refusal means.

A push comes before the local branch moves: one that is refused leaves everything as it was, and one
that a kill cut off is simply made again, since the commit is the same.
"""

import re

from configs.harness_settings import PushSettings
from connectors.harness.git_run import Git, Ran, failed, without_userinfo
from connectors.review.clean import one_line
from contracts.errors import ConnectorError

CHECK_S = 15.0
_NO_CREDENTIALS = re.compile(
    r"could not read (Username|Password)|Authentication failed|Permission denied \(|"
    r"terminal prompts disabled|invalid credentials|Host key verification failed|"
    r"returned error: 40[13]",
    re.IGNORECASE,
)


def push(git: Git, spec: PushSettings, commit: str, ref: str) -> None:
    """Let the remote's branch become `commit`, if that only adds to it. Idempotent.

    Raises:
        ConnectorError: not retryable where the remote refuses such a push at all; else whoever
            asks again, after what the message says was done, may succeed.
    """
    plain = ("--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
    ran = git.run(
        "push", *plain, "--no-signed", "--", spec.remote, f"{commit}:{ref}",
        timeout_s=spec.timeout_s,
    )  # fmt: skip
    if ran.code != 0:
        raise _why(git, spec, ref, ran)


def reachable(git: Git, spec: PushSettings, ref: str) -> str | None:
    """Why the remote cannot be read; None: it can. Whether it may be written, only a push tells."""
    try:
        ran = git.run("ls-remote", "--", spec.remote, ref, timeout_s=min(spec.timeout_s, CHECK_S))
    except ConnectorError as error:
        return str(error)
    return None if ran.code == 0 else str(_why(git, spec, ref, ran))


def _why(git: Git, spec: PushSettings, ref: str, ran: Ran) -> ConnectorError:
    branch, where = ref.removeprefix("refs/heads/"), _shown(git, spec)
    lines = [line for line in ran.text.splitlines() if line.startswith("!")]
    said = one_line(without_userinfo(lines[0].split("\t")[-1] if lines else ran.said), 300)
    if "[rejected]" in said or "fetch first" in said:
        return failed(
            "push",
            f"{where} has commits on {branch} that are not in {git.folder}; nothing was changed: "
            f"pull them there, then run `tracemend resume`",
            retryable=True,
        )
    if "[remote rejected]" in said:
        return failed("push", f"{where} refuses {branch}: {said}; {ran.said}; nothing was changed")
    if _NO_CREDENTIALS.search(ran.said):
        return failed(
            "push",
            f"{where} takes no credentials of this user; give git a key or a credential helper "
            "that needs no prompt, then run `tracemend resume`",
            retryable=True,
        )
    return failed("push", f"{where} cannot be reached: {ran.said}", retryable=True)


def _shown(git: Git, spec: PushSettings) -> str:
    """The remote with its address, without user name or password."""
    ran = git.run("remote", "get-url", "--push", "--", spec.remote)
    address = ran.text if ran.code == 0 else ""
    shown = f"{spec.remote} ({address})" if address else spec.remote
    return one_line(without_userinfo(shown), 200)
