//! Channel 2 of the programmable interval timer (PIT, Intel 8254). It counts down at a known rate and never interrupts:
//! a program can only read its count and its output. The first PCs made the sound of the speaker with it.

use x86_64::instructions::port::Port;

/// The port of the channel's count.
const COUNT: u16 = 0x42;
/// The port for commands to all channels.
const COMMAND: u16 = 0x43;
/// The system control port.
const CONTROL: u16 = 0x61;

/// Command: set channel 2 to mode 0 (count down once). The initial count follows as two bytes, low byte first.
const START: u8 = 0b1011_0000;
/// Command: latch the present count of channel 2, so that its two bytes can be read.
const LATCH: u8 = 0b1000_0000;

/// The bit of the control port that is the gate of channel 2. The channel counts while this bit is set.
const GATE: u8 = 1;
/// The bit of the control port that connects the output of channel 2 to the speaker.
const SPEAKER: u8 = 1 << 1;
/// The bit of the control port that is the output of channel 2. In mode 0 it is clear while the channel counts down to
/// zero, and set afterwards.
const OUTPUT: u8 = 1 << 5;

/// Makes the channel count down from `count`. After zero it continues with its greatest count. Only one caller at a
/// time may use the channel.
pub(crate) fn start(count: u16) {
    let (mut control, mut command, mut channel) =
        (Port::<u8>::new(CONTROL), Port::<u8>::new(COMMAND), Port::<u8>::new(COUNT));
    // SAFETY: reading the control port has no side effect.
    let bits = unsafe { control.read() };
    // SAFETY: this changes only the gate and the speaker bit of channel 2. The other bits are written back as they
    // were.
    unsafe { control.write(bits & !SPEAKER | GATE) };
    // SAFETY: this command affects only channel 2, which sends no interrupts. The channel starts counting when the high
    // byte of its initial count is written.
    unsafe { command.write(START) };
    for byte in count.to_le_bytes() {
        // SAFETY: this port belongs only to channel 2, which sends no interrupts.
        unsafe { channel.write(byte) };
    }
}

/// Returns the present count.
pub(crate) fn count() -> u16 {
    let (mut command, mut channel) = (Port::<u8>::new(COMMAND), Port::<u8>::new(COUNT));
    // SAFETY: this only stores the count for the reads that follow.
    unsafe { command.write(LATCH) };
    // SAFETY: the low byte of the stored count is read first, then the high byte.
    u16::from_le_bytes([unsafe { channel.read() }, unsafe { channel.read() }])
}

/// Whether the channel has counted down to zero since [`start`].
pub(crate) fn is_over() -> bool {
    // SAFETY: reading the control port has no side effect.
    unsafe { Port::<u8>::new(CONTROL).read() & OUTPUT != 0 }
}
