//! The screen: shows on the framebuffer the output that leaves the console's ring for the serial port. If there is
//! neither a serial port nor a virtio console, this is the only output.
//!
//! Only the rust-osdev bootloader passes a framebuffer; a machine that is started by PVH has none.
//!
//! The text does not scroll, because that would read the framebuffer, and reads from it are slow on real computers.
//! After the last line, the text continues in the first line. The line after the newest one is always empty. So showing
//! a byte takes a bounded time: at most that of clearing a line and drawing a character.

use boot_protocol::console::{Decoder, Received, Stream};
use bootloader_api::info::{FrameBuffer, FrameBufferInfo, PixelFormat};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use spin::Once;
use spin::mutex::SpinMutex;

const WEIGHT: FontWeight = FontWeight::Regular;
const HEIGHT: RasterHeight = RasterHeight::Size16;
const GLYPH_WIDTH: usize = get_raster_width(WEIGHT, HEIGHT);
const GLYPH_HEIGHT: usize = HEIGHT.val();
/// The largest number of bytes of a pixel.
const MAX_PIXEL_BYTES: usize = 4;
/// The width of a tab, in characters.
const TAB: usize = 8;

static SCREEN: Once<SpinMutex<Screen>> = Once::new();

/// The screen, as a grid of characters.
struct Screen {
    pixels: &'static mut [u8],
    info: FrameBufferInfo,
    columns: usize,
    lines: usize,
    /// Where the next character is drawn. The column is at most `columns`.
    column: usize,
    line: usize,
    decoder: Decoder,
    /// The bytes received so far of a UTF-8 character that is not complete yet.
    partial: heapless::Vec<u8, 4>,
}

/// Clears the framebuffer. From then on [`show`] draws on it. Does nothing if the framebuffer has no room for two lines
/// of one character each. Also does nothing if a pixel has no bytes or more than four, or if the framebuffer's memory
/// is smaller than its description says.
pub(crate) fn init(framebuffer: FrameBuffer) {
    let info = framebuffer.info();
    let (columns, lines) = (info.width / GLYPH_WIDTH, info.height / GLYPH_HEIGHT);
    let needed = info.stride.saturating_mul(info.height).saturating_mul(info.bytes_per_pixel);
    let pixels = framebuffer.into_buffer();
    let has_known_pixels = (1..=MAX_PIXEL_BYTES).contains(&info.bytes_per_pixel);
    if columns == 0 || lines < 2 || !has_known_pixels || needed > pixels.len() {
        return;
    }
    pixels.fill(0);
    let screen = Screen {
        pixels,
        info,
        columns,
        lines,
        column: 0,
        line: 0,
        decoder: Decoder::default(),
        partial: heapless::Vec::new(),
    };
    SCREEN.call_once(|| SpinMutex::new(screen));
}

/// Shows bytes of the console's output, in the form in which they are sent to the serial port. Does nothing without a
/// screen. Called with the console's lock held, or by a panic that has called [`take_over`].
pub(crate) fn show(bytes: &[u8]) {
    if let Some(screen) = SCREEN.get() {
        let mut screen = screen.lock();
        bytes.iter().for_each(|&byte| screen.receive(byte));
    }
}

/// Makes the screen available to a panic. A CPU that the panic has stopped may have been drawing, and would keep the
/// screen's lock for ever.
///
/// # Safety
/// A CPU that began to draw before this call must not continue to draw.
pub(crate) unsafe fn take_over() {
    if let Some(screen) = SCREEN.get() {
        // SAFETY: the caller promises that a CPU that holds the lock does not continue to draw.
        unsafe { screen.force_unlock() };
    }
}

impl Screen {
    fn receive(&mut self, byte: u8) {
        let Some(Received::Byte(stream, byte)) = self.decoder.decode(byte) else { return };
        // This cannot fail: after four bytes, the text is a whole character or is not valid.
        let _ = self.partial.push(byte);
        let character = match str::from_utf8(&self.partial) {
            Ok(text) => text.chars().next(),
            Err(error) if error.error_len().is_none() => return,
            Err(_) => Some(char::REPLACEMENT_CHARACTER),
        };
        self.partial.clear();
        character.into_iter().for_each(|character| self.put(character, stream));
    }

    fn put(&mut self, character: char, stream: Stream) {
        match character {
            '\n' => self.begin_line(),
            '\r' => self.column = 0,
            '\t' => self.column = ((self.column / TAB + 1) * TAB).min(self.columns),
            _ if character.is_control() => {}
            _ => {
                if self.column == self.columns {
                    self.begin_line();
                }
                self.draw(character, stream);
                self.column += 1;
            }
        }
    }

    /// Goes to the start of the next line, which is empty already, and clears the line after it.
    fn begin_line(&mut self) {
        self.column = 0;
        self.line = (self.line + 1) % self.lines;
        let line_bytes = self.info.stride * self.info.bytes_per_pixel * GLYPH_HEIGHT;
        let start = (self.line + 1) % self.lines * line_bytes;
        self.pixels[start..start + line_bytes].fill(0);
    }

    fn draw(&mut self, character: char, stream: Stream) {
        let glyph = get_raster(character, WEIGHT, HEIGHT).or_else(|| get_raster('?', WEIGHT, HEIGHT));
        let Some(glyph) = glyph else { return };
        let bytes_per_pixel = self.info.bytes_per_pixel;
        for (y, row) in glyph.rows().enumerate() {
            let mut drawn = [0; GLYPH_WIDTH * MAX_PIXEL_BYTES];
            for (pixel, &intensity) in drawn.chunks_exact_mut(bytes_per_pixel).zip(row) {
                set(pixel, self.info.pixel_format, color(stream).map(|part| scale(part, intensity)));
            }
            let first = (self.line * GLYPH_HEIGHT + y) * self.info.stride + self.column * GLYPH_WIDTH;
            let length = GLYPH_WIDTH * bytes_per_pixel;
            let start = first * bytes_per_pixel;
            self.pixels[start..start + length].copy_from_slice(&drawn[..length]);
        }
    }
}

/// Returns the colour of a stream's text: red, green, blue.
fn color(stream: Stream) -> [u8; 3] {
    match stream {
        Stream::Output => [0xe0, 0xe0, 0xe0],
        Stream::Error => [0xff, 0xb0, 0x40],
    }
}

fn scale(part: u8, intensity: u8) -> u8 {
    (u16::from(part) * u16::from(intensity) / 255) as u8
}

/// Writes a colour to a pixel. In a format that is not known, the colour is grey.
fn set(pixel: &mut [u8], format: PixelFormat, color @ [red, green, blue]: [u8; 3]) {
    let bytes = match format {
        PixelFormat::Rgb => color,
        PixelFormat::Bgr => [blue, green, red],
        _ => [green; 3],
    };
    pixel.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
}
