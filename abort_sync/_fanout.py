"""Many calls at once under one deadline: the only user of ``concurrent.futures``. This room knows nothing of HTTP.

A piece of work is a generator whose every step may block. It yields a number (seconds to wait before its next step), a list of
further pieces (run them all at once, then go on), or ``Spawn`` (start them and go on at once; they end with the run). Steps
are made by the threads of a ``ThreadPoolExecutor`` that is made for the run and gone when it ends.

Who drives::

    calling thread ── raw thread ── lead (Thread) ── ThreadPoolExecutor      the usual way
                                        └─ refused ── raw threads            atexit, or the main thread has ended
                                              └─ refused ── the lead itself  a thread limit
         └─ refused ── the calling thread itself                             a thread limit, or 3.12 while the interpreter ends

The calling thread takes no lock that somebody else can hold: it may be a signal handler that interrupted any code, also code
inside ``submit``. So it only starts a raw thread and waits; if nothing has been taken up for a moment (the lead waits for a
lock that the interrupted code holds), it starts raw threads itself.
"""

from __future__ import annotations

import _thread
import heapq
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Optional, Union

from ._deadline import Deadline

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
else:
    try:
        from concurrent.futures import ThreadPoolExecutor
    except RuntimeError:  # loaded for the first time while the interpreter ends, when executors are refused anyway
        ThreadPoolExecutor = None


@dataclass(frozen=True)
class Spawn:
    """Pieces of work to start without waiting for them."""

    works: Sequence[Work]


Step = Union[float, Sequence["Work"], Spawn]
Work = Iterator[Step]

_SLICE_S = 0.1
_BURST, _PACE_S = 32, 0.002
"""So many threads are started at once, and so many more each time that none began a step for a moment: 256 threads that take
turns at the interpreter's lock need a third more of its time than 32 where the servers answer at once."""
_GRACE_S = 0.3


class _Piece:
    """One piece of work, and whom its end is awaited by."""

    __slots__ = ("work", "parent", "awaited", "is_spawned", "is_spawning")

    def __init__(self, work: Work, parent: Optional[_Piece] = None, is_spawned: bool = False) -> None:
        self.work, self.parent, self.is_spawned = work, parent, is_spawned
        self.awaited = 0
        self.is_spawning = False  # it only directs: its steps never block, so they go first and take no turn


class FanOut:
    """Runs one piece of work, and all that it asks for, until it ends or the deadline comes.

    Args:
        work: The piece.
        deadline: When ``run`` comes back, whatever the steps do.
        threads: At most so many steps at once.
        cut: Ends whatever blocks the steps; called at the deadline and when the calling thread is interrupted.
        trim: Ends what blocks a step for longer than so many seconds; called now and then while steps wait for a thread, since
            those that began before that was known took no share.
    """

    def __init__(
        self,
        work: Work,
        deadline: Deadline,
        threads: int,
        cut: Callable[[], None],
        trim: Callable[[float], None] = lambda longest_s: None,
    ) -> None:
        self._deadline, self._threads, self._cut, self._trim = deadline, threads, cut, trim
        self._lock = threading.Lock()  # taken as such: an interrupt inside the `with` of a Condition would leave it locked
        self._changed = threading.Condition(self._lock)
        self._ready: deque[tuple[float, _Piece]] = deque()  # since when
        self._later: list[tuple[float, int, _Piece]] = []  # a heap
        self._count = 0
        self._begun = self._ended = 0  # steps
        self._active = 0  # loops that run or are about to
        self._starting = 0  # of these the one that the lead is starting
        self._is_over = False
        self._had = self._wanted = threads  # so many can be had
        self._failure: Optional[BaseException] = None
        self._messages: queue.SimpleQueue[Optional[Callable[[], object]]] = queue.SimpleQueue()
        self._lead_thread = threading.Thread(target=self._lead, name="abort-sync", daemon=False)
        self._lead_has_ended = False
        self._pid = os.getpid()
        self._push([_Piece(work)])

    def tell(self, message: Callable[[], object]) -> None:
        """Have something called in the calling thread, soon."""
        self._messages.put(message)

    @property
    def is_short(self) -> bool:
        """Whether threads were refused, so that fewer than wanted make the steps."""
        return self._had < self._wanted

    def share_s(self) -> Optional[float]:
        """Return the seconds that one step may take where steps wait for a thread, so that each gets its turn; else None."""
        turns = self._turns()
        return self._deadline.left() / turns if turns > 1 else None

    def run(self) -> None:
        """Run it all; come back when the work has ended, or at the deadline.

        Raises:
            BaseException: Whatever interrupts the calling thread (``KeyboardInterrupt``, ``SystemExit``), or what a step raised.
        """
        try:
            if not self._start_lead():
                self._lead_has_ended = True
                self._drive(None, is_calling=True)
            while not self._is_over and not self._deadline.is_over and os.getpid() == self._pid:
                self._hear(min(_SLICE_S, self._deadline.left()))
                if not self._is_over and self._is_stalled():
                    self._start_raw()
                turns = self._turns()
                if turns > 1:
                    self._trim(self._deadline.left() / turns)
        finally:
            self._end()
        if self._failure is not None:
            raise self._failure

    def _turns(self) -> int:
        """Return how many steps a thread must make one after another, the one under way included."""
        with self._lock:
            self._wake()
            waiting = len(self._ready) - max(0, self._had - (self._begun - self._ended))
            if self._ready and self._ready[0][1].is_spawning:
                waiting -= 1
            return 1 - min(0, -waiting // self._had)

    # --- the calling thread ---

    def _start_lead(self) -> bool:
        lead = self._lead_thread

        def start() -> None:
            try:
                lead.start()
            except RuntimeError:
                self._lead()

        return _started_raw(start)

    def _hear(self, wait_s: float) -> None:
        try:
            message = self._messages.get(timeout=wait_s) if wait_s > 0 else self._messages.get_nowait()
        except queue.Empty:
            return
        if message is not None:
            message()

    def _is_stalled(self) -> bool:
        with self._lock:
            if not self._is_any_ready() or self._active - self._starting >= self._threads:
                return False
            return self._ready[0][0] < time.monotonic() - _SLICE_S

    def _end(self) -> None:
        if os.getpid() != self._pid:
            return  # forked inside `on_event`: the threads have stayed behind, and the connections are the parent's
        with self._lock:
            self._is_over = True
            self._changed.notify_all()
        grace = Deadline.after(_GRACE_S)
        if self._active:
            self._cut()
        while (self._active or not self._lead_has_ended) and not grace.is_over:
            self._hear(min(_SLICE_S, grace.left()))
        try:
            self._lead_thread.join(grace.left())
        except RuntimeError:
            pass  # not started, or waits for a lock that the interrupted code holds before it counts as started
        while not self._messages.empty():
            self._hear(0.0)

    # --- the lead ---

    def _lead(self) -> None:
        executor = ThreadPoolExecutor(self._threads, thread_name_prefix="abort-sync") if ThreadPoolExecutor is not None else None
        try:
            self._drive(executor)
        finally:
            if executor is not None:
                executor.shutdown(wait=True)
            self._lead_has_ended = True
            self._messages.put(None)

    def _drive(self, executor: Optional[ThreadPoolExecutor], is_calling: bool = False) -> None:
        """Have a thread for each step that is ready, or make the steps here."""
        may_start = _BURST
        while True:
            with self._lock:
                while not self._is_over and not (self._is_any_ready() and self._active < min(may_start, self._threads)):
                    if self._deadline.is_over:
                        return
                    begun = self._begun
                    self._changed.wait(self._until_next(may_start))
                    if begun == self._begun and self._is_any_ready():
                        may_start += _BURST  # all threads that there are block
                if self._is_over or self._deadline.is_over:
                    return
                self._active += 1
                self._starting = 1
            is_started = self._start_thread(executor)
            with self._lock:
                self._starting = 0
                if is_started:
                    self._had = self._threads
                    continue
                self._had = max(1, self._active - 1)
                if self._active > 1:  # go on with the threads that there are
                    self._active -= 1
                    self._threads = self._active
                    continue
            self._loop(at_most=1)
            while is_calling and not self._messages.empty():
                self._hear(0.0)

    def _start_thread(self, executor: Optional[ThreadPoolExecutor]) -> bool:
        unused = [True]

        def loop_once() -> None:
            if unused and unused.pop():
                self._loop()

        if executor is not None:
            try:
                executor.submit(loop_once)
                return True
            except RuntimeError:  # it may have been queued all the same, for a thread that there is already
                pass
        if _started_raw(loop_once):
            return True
        try:
            return not unused.pop()
        except IndexError:
            return True

    def _start_raw(self) -> None:
        with self._lock:
            wanted = max(0, min(len(self._ready), self._threads - self._active + self._starting))
            self._active += wanted
        for n in range(wanted):
            if not _started_raw(self._loop):
                with self._lock:
                    self._active -= wanted - n
                    self._changed.notify()  # the lead may have taken them for threads that run, and wait for one
                return

    # --- the threads ---

    def _loop(self, at_most: int = 1_000_000_000) -> None:
        """Make steps while any is ready; whoever starts this has counted it as active."""
        try:
            for _ in range(at_most):
                with self._lock:
                    if self._is_over or self._deadline.is_over or not self._is_any_ready():
                        return
                    piece = self._ready.popleft()[1]
                    self._begun += 1
                self._step(piece)
        finally:
            with self._lock:
                self._active -= 1
                self._changed.notify()
            if self._is_over:
                self._messages.put(None)

    def _step(self, piece: _Piece) -> None:
        asked: Optional[Step] = None
        failure: Optional[BaseException] = None
        try:
            asked = next(piece.work)
        except StopIteration:
            pass
        except BaseException as why:
            failure = why
        with self._lock:
            self._ended += 1
        if failure is not None:
            self._failure = self._failure or failure
            self._stop()
        elif asked is None:
            self._finished(piece)
        elif isinstance(asked, (int, float)):
            self._push([piece], asked)
        elif isinstance(asked, Spawn):
            piece.is_spawning = True
            self._push([*(_Piece(work, is_spawned=True) for work in asked.works), piece])
        elif asked:
            piece.awaited = len(asked)
            self._push([_Piece(work, piece) for work in asked])
        else:
            self._push([piece])

    def _finished(self, piece: _Piece) -> None:
        parent = piece.parent
        if parent is None:
            if not piece.is_spawned:
                self._stop()
            return
        with self._lock:
            parent.awaited -= 1
            is_awaited = parent.awaited > 0
        if not is_awaited:
            self._push([parent])

    def _stop(self) -> None:
        with self._lock:
            self._is_over = True
            self._changed.notify_all()
        self._messages.put(None)

    def _push(self, pieces: Sequence[_Piece], wait_s: float = 0.0) -> None:
        now = time.monotonic()
        with self._lock:
            if wait_s > 0:
                for piece in pieces:
                    self._count += 1
                    heapq.heappush(self._later, (now + wait_s, self._count, piece))
            else:
                self._wake()
                for piece in pieces:
                    self._queue(now, piece)
            self._changed.notify()

    # --- under the lock ---

    def _wake(self) -> None:
        """Move what has waited long enough to what is ready."""
        while self._later and self._later[0][0] <= time.monotonic():
            when, _, piece = heapq.heappop(self._later)
            self._queue(when, piece)

    def _queue(self, when: float, piece: _Piece) -> None:
        if piece.is_spawning:
            self._ready.appendleft((when, piece))
        else:
            self._ready.append((when, piece))

    def _is_any_ready(self) -> bool:
        self._wake()
        return bool(self._ready)

    def _until_next(self, may_start: int) -> float:
        left = self._deadline.left()
        if not self._is_any_ready():
            return min(left, max(0.0, self._later[0][0] - time.monotonic())) if self._later else left
        if self._active < min(may_start, self._threads):
            return 0.0  # it has become ready just now
        return min(left, _PACE_S) if may_start < self._threads else left


def _started_raw(work: Callable[[], object]) -> bool:
    """Start a thread without taking any lock, and tell whether it will run."""
    try:
        _thread.start_new_thread(work, ())
    except RuntimeError:
        return False
    return True
