//! A picture of the screen, and the text in it.

use std::fs;
use std::path::Path;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

const WEIGHT: FontWeight = FontWeight::Regular;
const HEIGHT: RasterHeight = RasterHeight::Size16;
const GLYPH_WIDTH: usize = get_raster_width(WEIGHT, HEIGHT);
/// The brightness of the kernel's standard output, whose colour is grey.
const BRIGHTNESS: u16 = 0xe0;

/// A picture with three bytes for each pixel.
pub(crate) struct Picture {
    width: usize,
    pixels: Vec<u8>,
}

impl Picture {
    /// Reads a file in the format PPM. Returns `None` if the file is missing, incomplete or in another format.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let bytes = fs::read(file).ok()?;
        let mut lines = bytes.splitn(4, |&byte| byte == b'\n');
        let (kind, size, _, pixels) = (lines.next()?, lines.next()?, lines.next()?, lines.next()?);
        let (width, height) = str::from_utf8(size).ok()?.split_once(' ')?;
        let (width, height): (usize, usize) = (width.parse().ok()?, height.parse().ok()?);
        let is_complete = kind == b"P6" && pixels.len() == width * height * 3;
        is_complete.then(|| Self { width, pixels: pixels.to_vec() })
    }

    /// Whether one of the lines of text begins with `text`, in the kernel's font and colour.
    pub(crate) fn shows(&self, text: &str) -> bool {
        let line_bytes = self.width * HEIGHT.val() * 3;
        self.pixels.chunks_exact(line_bytes).any(|line| {
            text.chars().enumerate().all(|(column, character)| self.has(line, column * GLYPH_WIDTH, character))
        })
    }

    /// Whether `character` is in a line of text, `x` pixels from the left.
    fn has(&self, line: &[u8], x: usize, character: char) -> bool {
        let glyph = get_raster(character, WEIGHT, HEIGHT).expect("the font has the character");
        let rows = glyph.rows().zip(line.chunks_exact(self.width * 3));
        rows.into_iter().all(|(expected, row)| {
            let found = row[x * 3..].chunks_exact(3);
            expected.iter().zip(found).all(|(&intensity, pixel)| {
                let expected = BRIGHTNESS * u16::from(intensity) / 255;
                pixel.iter().all(|&part| u16::from(part) == expected)
            })
        })
    }
}
