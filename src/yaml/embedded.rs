//! YAML inside YAML: the text of a block, with its places told as those of the file.

use super::{Node, Place, Value};

/// A text inside a file.
#[derive(Clone, Copy, Debug)]
pub struct Embedded<'a> {
    /// The text.
    pub text: &'a str,
    file: &'a str,
    place: Place,
    literal: bool,
}

/// How places inside a text become those of the file that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// The text is a literal block: its lines are lines of the file.
    By {
        /// Lines of the file above its first.
        lines: usize,
        /// Characters before each line.
        columns: usize,
    },
    /// The text was folded or quoted: all that is known is where it begins.
    To(Place),
}

impl Shift {
    /// That of a text that is the file.
    pub const NONE: Self = Self::By {
        lines: 0,
        columns: 0,
    };

    /// Where in the file a place of the text is.
    pub fn place(self, inner: Place) -> Place {
        match self {
            Self::By { lines, columns } => Place {
                line: lines + inner.line,
                column: columns + inner.column,
            },
            Self::To(place) => place,
        }
    }
}

impl<'a> Embedded<'a> {
    /// The text of a node of a file, if it is one.
    pub fn of(file: &'a str, node: &'a Node) -> Option<Self> {
        let Value::Text(text) = &node.value else {
            return None;
        };
        Some(Self {
            text: &text.text,
            file,
            place: node.place,
            literal: text.literal,
        })
    }

    /// How its places become those of the file. This reads the file up to there: ask for texts of
    /// which something is to be said, not for each.
    pub fn shift(&self) -> Shift {
        let lines = self
            .literal
            .then(|| lines(self.file, self.place, self.text));
        lines.flatten().unwrap_or(Shift::To(self.place))
    }
}

/// The shift of a literal block, known from its first line that is not blank: that is where the
/// parser says that it begins.
fn lines(file: &str, place: Place, text: &str) -> Option<Shift> {
    let blanks = text.lines().position(|line| !line.trim().is_empty())?;
    let line = text.lines().nth(blanks)?;
    let found = file.lines().nth(place.line.checked_sub(1)?)?;
    // An indentation is spaces alone, so that bytes are characters.
    let indentation = found.strip_suffix(line)?;
    Some(Shift::By {
        lines: place.line.checked_sub(blanks + 1)?,
        columns: indentation.len(),
    })
}
