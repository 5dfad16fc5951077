//! The network: TCP over the first virtio network device.
//!
//! The protocols are in the crate `kernel-net`. This module connects them with the device. The device is set up when
//! the kernel starts. The first use of the network starts the G that serves the device. So a program that does not use
//! the network has no such G, and the computer then answers nobody.

use alloc::boxed::Box;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::platform::OutOfResources;
use kernel_net::{Configuration, Network, Stack};
use spin::Once;

use crate::cpu::contexts;
use crate::cpu::percpu::CpuId;
use crate::cpu::sync::InterruptMutex;
use crate::drivers::disk_error::SetupError;
use crate::drivers::random::fill_random;
use crate::drivers::virtio::net::{self, NetDevice};
use crate::sched::platform::{Builder, Kernel, Limit, Mutex};

pub use kernel_net::{NetError, Shutdown, ToSocketAddr, Usage};

/// A port on which peers can connect. See [`kernel_net::TcpListener`].
pub type TcpListener = kernel_net::TcpListener<Kernel>;

/// An iterator over the connections of a listener. See [`kernel_net::Incoming`].
pub type Incoming<'a> = kernel_net::Incoming<'a, Kernel>;

/// A TCP connection. See [`kernel_net::TcpStream`].
pub type TcpStream = kernel_net::TcpStream<Kernel>;

/// The device, until the stack takes it.
static DEVICE: Once<Result<InterruptMutex<Option<NetDevice>>, SetupError>> = Once::new();
/// The addresses that the kernel options determine.
static CONFIGURATION: Once<Configuration> = Once::new();
static STACK: Once<Stack<Kernel>> = Once::new();
/// Whether a G serves the device.
static IS_SERVED: AtomicBool = AtomicBool::new(false);
/// Held by the G that sets up the stack.
static SET_UP: Mutex<()> = Mutex::new(());

/// Finds the device. Called once, after all CPUs have started.
pub(crate) fn init(configuration: Configuration) {
    CONFIGURATION.call_once(|| configuration);
    DEVICE.call_once(|| {
        net::open(CpuId::BOOT, |_| announce()).map(|device| InterruptMutex::new(Some(device))).inspect_err(|error| {
            if *error != SetupError::Missing {
                log::error!("network device: {error}");
            }
        })
    });
}

/// The interrupt handler of the device. Before the first use of the network nobody waits for it.
fn announce() {
    if let Some(stack) = STACK.get() {
        stack.announce();
    }
}

impl Network for Kernel {
    #[track_caller]
    fn stack() -> Result<&'static Stack<Self>, NetError> {
        contexts::assert_may_block();
        if !IS_SERVED.load(Ordering::Acquire) {
            set_up()?;
        }
        STACK.get().ok_or(NetError::NoNetwork)
    }
}

/// Makes the stack, and starts the G that serves the device.
fn set_up() -> Result<(), NetError> {
    let device = match DEVICE.get() {
        None | Some(Err(SetupError::Missing)) => return Err(NetError::NoNetwork),
        Some(Err(_)) => return Err(NetError::Device),
        Some(Ok(device)) => device,
    };
    let _only_one = SET_UP.lock();
    if STACK.get().is_none() {
        let mut seed = [0; 8];
        fill_random(&mut seed);
        let configuration = CONFIGURATION.get().copied().unwrap_or_default();
        let configuration = Configuration { seed: u64::from_le_bytes(seed), ..configuration };
        let device = device.lock().take().ok_or(NetError::Device)?;
        let stack = Stack::new(Box::new(device), &configuration)?;
        STACK.call_once(|| stack);
    }
    let stack = STACK.get().ok_or(NetError::Device)?;
    if !IS_SERVED.load(Ordering::Relaxed) {
        let serves = Builder::new().name("network").try_go(move || stack.serve());
        serves.map_err(|_| OutOfResources)?.detach();
        // Ordering: Release; partner: the load in `stack`. A G that sees the flag also sees the stack.
        IS_SERVED.store(true, Ordering::Release);
    }
    Ok(())
}

/// Waits until the computer has an address, and returns it. Blocks the calling G.
///
/// # Errors
///
/// If there is no network, or the limit ends the wait.
///
/// # Panics
///
/// If the caller is not a G, or must not block.
#[track_caller]
pub fn address_until<'l>(limit: impl Into<Limit<'l>>) -> Result<Ipv4Addr, NetError> {
    Kernel::stack()?.wait_for_address(limit)
}

/// Returns how many connections and listeners there are.
///
/// # Errors
///
/// If there is no network.
///
/// # Panics
///
/// If the caller is not a G, or must not block.
#[track_caller]
pub fn usage() -> Result<Usage, NetError> {
    Ok(Kernel::stack()?.usage())
}
