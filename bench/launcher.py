"""Starts one command, waits for it, writes down what it took. `launcher.py REPORT COMMAND [ARGUMENT…]`.

A program of its own, and a small one: the system counts the memory of whoever starts a process into that process's
peak, so a large parent would hide what a small child needs. Runs without `site`.
"""

import os
import sys
import time


def main() -> int:
    report_path, command = sys.argv[1], sys.argv[2:]
    began_ns = time.perf_counter_ns()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    wall_ns = time.perf_counter_ns() - began_ns
    exit_code = os.waitstatus_to_exitcode(status)
    report = os.open(report_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(
        report,
        f"{exit_code} {wall_ns} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}".encode(),
    )
    os.close(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
