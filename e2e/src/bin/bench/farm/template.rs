//! Text with places to be filled in, split once and filled often.

/// A text with places.
#[derive(Debug)]
pub(super) struct Template {
    /// A piece, and the place of the value that follows it, if any.
    pieces: Vec<(String, Option<usize>)>,
}

impl Template {
    /// A text in which these marks stand, any number of times.
    pub(super) fn new(text: &str, marks: &[&str]) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        loop {
            let places = marks.iter().enumerate();
            let next = places
                .filter_map(|(place, mark)| Some((rest.split_once(mark)?, place)))
                .min_by_key(|((before, _), _)| before.len());
            let Some(((before, after), place)) = next else {
                pieces.push((rest.to_owned(), None));
                return Self { pieces };
            };
            pieces.push((before.to_owned(), Some(place)));
            rest = after;
        }
    }

    /// Appends the text with these values in place of the marks, in the order of those.
    pub(super) fn fill(&self, values: &[&str], out: &mut String) {
        for (piece, place) in &self.pieces {
            out.push_str(piece);
            let value = place.and_then(|place| values.get(place));
            out.push_str(value.copied().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_replaced_wherever_they_stand() {
        let template = Template::new("@A@ and @B@, @A@.", &["@A@", "@B@"]);
        let mut out = String::from("> ");
        template.fill(&["1", "@A@"], &mut out);
        assert_eq!(out, "> 1 and @A@, 1.");
        let mut out = String::new();
        Template::new("none", &["@A@"]).fill(&["1"], &mut out);
        assert_eq!(out, "none");
    }
}
