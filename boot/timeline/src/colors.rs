//! The colors of the page and of pictures.

use crate::page::STYLE;

/// The colors of Gs: hue, saturation and lightness. They differ in lightness, too, for readers who do not see all hues.
/// White text is readable on each of them.
pub(crate) const PALETTE: [[u32; 3]; 8] = [
    [212, 48, 44],
    [28, 72, 36],
    [168, 54, 30],
    [288, 34, 46],
    [345, 46, 44],
    [80, 60, 29],
    [197, 66, 32],
    [243, 34, 50],
];

/// Whether a picture is for a light or for a dark background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}

impl Theme {
    /// Both themes, with their names.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Light, "light"), (Self::Dark, "dark")];

    /// Returns the color that the style of the page has under this name.
    pub(crate) fn color(self, name: &str) -> &'static str {
        let begin = if self == Self::Light { ":root {" } else { ":root[data-theme=\"dark\"] {" };
        let block =
            STYLE.split_once(begin).and_then(|(_, rest)| rest.split_once('}')).expect("the style has both themes");
        let after = block.0.split_once(&format!("--{name}: ")).expect("the theme has this color").1;
        after.split(';').next().unwrap_or_default()
    }
}

/// Returns the color of the Gs of this number in hexadecimal, which programs for slides can read.
pub(crate) fn of_goroutine(number: usize) -> String {
    let [hue, saturation, lightness] = PALETTE[number % PALETTE.len()].map(f64::from);
    let (saturation, lightness) = (saturation / 100.0, lightness / 100.0);
    // https://www.w3.org/TR/css-color-4/#hsl-to-rgb
    let channel = |offset: f64| {
        let place = (offset + hue / 30.0) % 12.0;
        let share =
            lightness - saturation * lightness.min(1.0 - lightness) * (place - 3.0).min(9.0 - place).clamp(-1.0, 1.0);
        (255.0 * share).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

#[cfg(test)]
mod tests {
    use super::{PALETTE, Theme, of_goroutine};

    /// The relative luminance of WCAG.
    fn luminance(color: &str) -> f64 {
        let channel = |at: usize| {
            let share = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let [one, other] = [one, other].map(luminance);
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn text_is_readable_on_all_colors() {
        (0..PALETTE.len()).for_each(|number| assert!(contrast("#ffffff", &of_goroutine(number)) >= 4.5, "{number}"));
        for (theme, name) in Theme::ALL {
            for (text, on) in [("front", "back"), ("dim", "back"), ("front", "idle"), ("back", "interrupt")] {
                assert!(contrast(theme.color(text), theme.color(on)) >= 4.5, "{name}: {text} on {on}");
            }
        }
    }

    #[test]
    fn colors_are_converted_as_browsers_do() {
        assert_eq!(of_goroutine(0), "#3a6da6");
    }
}
