//! Draws that are random and still fair.

use fastrand::Rng;

/// Cards that are dealt to the last before they are shuffled again.
pub(crate) struct Deck<T> {
    all: Vec<T>,
    left: Vec<T>,
}

impl<T: Clone> Deck<T> {
    pub(crate) fn new(all: Vec<T>) -> Self {
        let left = Vec::new();
        Self { all, left }
    }

    /// The next that fits; one that does not keeps its place, and keeps none that does from coming.
    pub(crate) fn draw(&mut self, random: &mut Rng, fits: impl Fn(&T) -> bool) -> Option<T> {
        if !self.left.iter().any(&fits) {
            let mut more = self.all.clone();
            random.shuffle(&mut more);
            self.left.extend(more);
        }
        let place = self.left.iter().position(fits)?;
        Some(self.left.remove(place))
    }
}
