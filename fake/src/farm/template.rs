//! Bodies with places to be filled in, split once and filled often.

/// A body with places.
#[derive(Debug)]
pub(super) struct Template {
    /// A piece, and the place of the value that follows it, if any.
    pieces: Vec<(Vec<u8>, Option<usize>)>,
}

impl Template {
    /// A body in which these marks stand, any number of times.
    pub(super) fn new(body: &[u8], marks: &[&str]) -> Self {
        let mut pieces = Vec::new();
        let mut rest = body;
        loop {
            let places = marks.iter().enumerate();
            let next = places
                .filter_map(|(place, mark)| Some((split_once(rest, mark.as_bytes())?, place)))
                .min_by_key(|((before, _), _)| before.len());
            let Some(((before, after), place)) = next else {
                pieces.push((rest.to_owned(), None));
                return Self { pieces };
            };
            pieces.push((before.to_owned(), Some(place)));
            rest = after;
        }
    }

    /// Appends the body with these values in place of the marks, in the order of those.
    pub(super) fn fill(&self, values: &[&str], out: &mut Vec<u8>) {
        for (piece, place) in &self.pieces {
            out.extend_from_slice(piece);
            let value = place.and_then(|place| values.get(place));
            out.extend_from_slice(value.copied().unwrap_or_default().as_bytes());
        }
    }
}

/// What stands before and after a mark.
fn split_once<'a>(body: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = body.windows(mark.len()).position(|part| part == mark)?;
    let (before, rest) = body.split_at(at);
    Some((before, rest.strip_prefix(mark)?))
}
