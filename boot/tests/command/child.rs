//! The child processes of the tests. A child begins with default signals, even if the process that runs the tests
//! ignores or blocks some signals. If a child exceeds its time limit or its test fails, the child and its process
//! group are ended. So every test ends, and no test leaves a process behind.

use core::time::Duration;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

/// The time limit for a child. The slowest child builds the kernel.
const LIMIT: Duration = Duration::from_secs(900);

/// After SIGTERM, a child gets this long to end the processes that it has started. After that, the child gets SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// A child process. It leads a process group of its own. Dropping this value ends the group.
pub(crate) struct Running {
    child: Child,
    /// The command, for messages.
    command: String,
    limit: Duration,
    /// The channel to the thread that enforces the time limit. The channel is dropped when the child has ended.
    orders: Option<Sender<Order>>,
    /// The thread that enforces the time limit by ending the process group. The thread returns whether the limit was
    /// exceeded.
    watch: Option<JoinHandle<bool>>,
}

/// A message to the thread that enforces the time limit.
enum Order {
    EndTheGroup,
    /// From now on, the child gets this much time.
    Limit(Duration),
}

/// Starts `command` and waits for its end. Panics if the command does not end within the time limit.
pub(crate) fn run(command: Command) -> Output {
    Running::start(command).finish()
}

impl Running {
    /// Starts `command` with the time limit [`LIMIT`].
    pub(crate) fn start(mut command: Command) -> Self {
        command.process_group(0);
        begin_with_default_signals(&mut command);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let group = Pid::from_child(&child);
        let (orders, received) = mpsc::channel();
        let watch = thread::spawn(move || {
            let mut limit = LIMIT;
            loop {
                match received.recv_timeout(limit) {
                    Err(RecvTimeoutError::Disconnected) => return false,
                    Ok(Order::Limit(new)) => limit = new,
                    end => {
                        end_group(group, &received);
                        return end.is_err();
                    }
                }
            }
        });
        Self { child, command: format!("{command:?}"), limit: LIMIT, orders: Some(orders), watch: Some(watch) }
    }

    /// Gives the child this much time from now on.
    fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
        let orders = self.orders.as_ref().expect("the child has not been waited for");
        orders.send(Order::Limit(limit)).expect("the time limit is enforced");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    /// Takes the child's standard input. Dropping the result ends the input.
    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("a pipe, taken once")
    }

    /// Takes the child's standard output. Dropping the result closes the reading end of the pipe.
    pub(crate) fn take_output(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("a pipe, taken once")
    }

    /// Takes the child's standard error.
    pub(crate) fn take_errors(&mut self) -> impl Read + use<> {
        self.child.stderr.take().expect("a pipe, taken once")
    }

    /// Reads standard output until the text that was read ends with `end`.
    pub(crate) fn read_until(&mut self, end: &str) -> String {
        let mut output = self.child.stdout.take().expect("a pipe");
        let read = read_until(&mut output, end);
        self.child.stdout = Some(output);
        self.expect_end(end, read)
    }

    /// Reads standard error until the text that was read ends with `end`.
    pub(crate) fn read_errors_until(&mut self, end: &str) -> String {
        let mut errors = self.child.stderr.take().expect("a pipe");
        let read = read_until(&mut errors, end);
        self.child.stderr = Some(errors);
        self.expect_end(end, read)
    }

    fn expect_end(&mut self, end: &str, read: Result<String, String>) -> String {
        read.unwrap_or_else(|read| {
            let status = self.wait();
            panic!("{status}, without {end:?} in {read:?}")
        })
    }

    /// Reads everything that the child prints, and waits for its end.
    pub(crate) fn finish(mut self) -> Output {
        // The child may wait for the end of its input, so the input is ended here.
        drop(self.child.stdin.take());
        let errors = self.child.stderr.take().map(|pipe| thread::spawn(|| read_to_end(pipe)));
        let stdout = self.child.stdout.take().map(read_to_end).unwrap_or_default();
        let stderr = errors.map(|reader| reader.join().expect("it does not panic")).unwrap_or_default();
        let (status, in_time) = self.reap();
        let said = || [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
        assert!(in_time, "{}, after it printed:\n{}", self.too_late(), said());
        Output { status, stdout, stderr }
    }

    /// Waits for the end of the child. Panics if the child does not end within the time limit.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let (status, in_time) = self.reap();
        assert!(in_time, "{}", self.too_late());
        status
    }

    fn too_late(&self) -> String {
        format!("{} did not end within {:?} and was ended", self.command, self.limit)
    }

    /// Waits for the child's end. Returns the child's status, and whether the child ended within the time limit.
    fn reap(&mut self) -> (ExitStatus, bool) {
        // This call waits for the child but does not reap it. So the ids of the child and of its group stay reserved
        // while the thread that enforces the time limit may still send signals to them.
        if self.orders.is_some() {
            let child = || WaitId::Pid(Pid::from_child(&self.child));
            let ended = || waitid(child(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            while ended().is_err_and(|error| error == Errno::INTR) {}
            self.orders = None;
        }
        let is_over = self.watch.take().is_some_and(|watch| watch.join().expect("it does not panic"));
        (self.child.wait().expect("a child"), !is_over)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(orders) = &self.orders {
            // `send` fails if the thread that enforces the time limit has ended. In this case, that thread has already
            // ended the group.
            drop(orders.send(Order::EndTheGroup));
            self.reap();
        }
    }
}

/// Ends a process group. Sends SIGTERM first. A `boot` in the group then ends its QEMU, which is in another group.
/// Sends SIGKILL when the child has ended, or after [`GRACE`].
fn end_group(group: Pid, child: &Receiver<Order>) {
    // The call fails if no process is left in the group. In this case, no signal is needed.
    let _ = kill_process_group(group, Signal::TERM);
    // If a process is stopped, it handles SIGTERM only after it has been continued.
    let _ = kill_process_group(group, Signal::CONT);
    while child.recv_timeout(GRACE).is_ok() {}
    let _ = kill_process_group(group, Signal::KILL);
}

/// Reads until the text ends with `end`. If the pipe ends earlier, returns the text that was read until then, as the
/// error.
fn read_until(pipe: &mut impl Read, end: &str) -> Result<String, String> {
    let (mut read, mut byte) = (Vec::new(), [0]);
    while !read.ends_with(end.as_bytes()) {
        if pipe.read_exact(&mut byte).is_err() {
            return Err(String::from_utf8_lossy(&read).into_owned());
        }
        read.push(byte[0]);
    }
    Ok(String::from_utf8(read).expect("text"))
}

fn read_to_end(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).expect("a pipe");
    bytes
}

/// Makes the child begin with no signal ignored or blocked. Otherwise the child would inherit the ignored and blocked
/// signals of the process that runs the tests. For example, `nohup` ignores SIGHUP.
fn begin_with_default_signals(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes only async-signal-safe system calls. It does not allocate and
    // takes no lock.
    unsafe { command.pre_exec(set_default_signals) };
}

fn set_default_signals() -> io::Result<()> {
    for signal in 1..=31 {
        // SAFETY: the default action of a signal runs no code of this process. The action of SIGKILL and SIGSTOP cannot
        // be changed, so for these the call fails without an effect.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut none = core::mem::MaybeUninit::uninit();
    // SAFETY: the pointer is valid, and the call initialises the set.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the call above has initialised the set. The null pointer means that the old set is not requested.
    match unsafe { libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), core::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(std::process::Stdio::piped());
    command
}

#[test]
fn child_starts_with_default_signals() {
    use std::os::unix::process::ExitStatusExt as _;

    // SAFETY: ignoring a signal runs no code of this process, and no code of this process waits for SIGUSR1.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    let mut blocked = core::mem::MaybeUninit::uninit();
    // SAFETY: the pointer is valid, and the call initialises the set.
    unsafe { libc::sigemptyset(blocked.as_mut_ptr()) };
    // SAFETY: the call above has initialised the set.
    unsafe { libc::sigaddset(blocked.as_mut_ptr(), libc::SIGUSR2) };
    // SAFETY: the set is initialised. The call changes only the mask of this test's thread.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), core::ptr::null_mut()) };
    for signal in [Signal::USR1, Signal::USR2] {
        let status = run(shell(&format!("kill -{} $$; echo it goes on", signal.as_raw()))).status;
        assert_eq!(status.signal(), Some(signal.as_raw()));
    }
}

#[test]
fn child_over_its_time_is_ended_with_its_group() {
    let started = "sleep 1000 & echo $!; wait";
    for script in [started, &format!("trap '' TERM; {started}; wait"), &format!("{started} & kill -STOP $$")] {
        let mut child = Running::start(shell(script));
        let sleeper = child.read_until("\n");
        child.set_limit(Duration::from_millis(500));
        let failed = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| child.wait())).expect_err("it is late");
        let message = failed.downcast::<String>().expect("a text");
        assert!(message.contains("did not end within 500ms and was ended"), "{message}");
        assert_is_gone(sleeper.trim());
    }
}

#[test]
fn child_is_ended_when_its_test_fails() {
    let mut child = Running::start(shell("sleep 1000 & echo $!; wait"));
    let sleeper = child.read_until("\n");
    drop(child);
    assert_is_gone(sleeper.trim());
}

/// Asserts that a process has ended or is a zombie. The caller has made the process end, for example by a signal, which
/// may take some time to have an effect.
pub(crate) fn assert_is_gone(id: &str) {
    let id = Pid::from_raw(id.parse().expect("a number")).expect("a process");
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    let is_alive = || {
        let states = Command::new("ps").args(["-o", "stat=", "-p", &id.as_raw_nonzero().to_string()]).output();
        let state = states.expect("ps").stdout;
        !state.is_empty() && !state.starts_with(b"Z")
    };
    while is_alive() {
        assert!(std::time::Instant::now() < deadline, "{id:?} still runs");
        thread::sleep(Duration::from_millis(10));
    }
}
