//! Reading the body of an answer, up to its limit and to the room that there is.

use std::ops::Deref;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as Frames;

use super::client::Body;
use super::room::{LARGE_BYTES, ROOM, Room, Share};

/// The least that is reserved, in bytes: nearly all that is read are lists of leases, each half a
/// kilobyte.
const FIRST_BYTES: usize = 16 * 1024;

pub(super) enum End {
    Whole,
    CutOff,
    /// There was no room for more.
    Crowded,
}

/// What was read of a body, and its share of the room if it is large.
pub(super) struct Received {
    bytes: Vec<u8>,
    share: Option<Share<'static>>,
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads at most `limit` bytes. What was read before an error is returned as well. The connection is
/// kept if the body has been read to its end, and closed otherwise.
pub(super) async fn read_body(mut body: Body, limit: usize) -> (Received, hyper::Result<End>) {
    let (read, end) = read_into(&ROOM, &mut body, limit).await;
    if let Ok(End::Whole) = end {
        body.keep().await;
    }
    (read, end)
}

async fn read_into<B>(
    room: &'static Room,
    body: &mut B,
    limit: usize,
) -> (Received, Result<End, B::Error>)
where
    B: Frames<Data = Bytes> + Unpin,
{
    let mut read = Received {
        bytes: Vec::new(),
        share: None,
    };
    loop {
        let frame = tokio::select! {
            biased;
            () = given_up(read.share.as_ref()) => return (read, Ok(End::Crowded)),
            frame = body.frame() => frame,
        };
        let data = match frame {
            // Trailers are of no use.
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return (read, Err(error)),
            None => return (read, Ok(End::Whole)),
        };
        let left = limit.saturating_sub(read.bytes.len());
        let taken = data.get(..left).unwrap_or(&data);
        if !read.reserve(taken.len(), limit, room) {
            return (read, Ok(End::Crowded));
        }
        read.bytes.extend_from_slice(taken);
        if data.len() > left {
            return (read, Ok(End::CutOff));
        }
    }
}

impl Received {
    /// Makes room for so many bytes more; whether there is.
    fn reserve(&mut self, more: usize, limit: usize, room: &'static Room) -> bool {
        let needed = self.bytes.len().saturating_add(more);
        if needed <= self.bytes.capacity() {
            return true;
        }
        // Twice as much each time, so that little is copied, and no more than can be needed.
        let capacity = self.bytes.capacity().saturating_mul(2).max(FIRST_BYTES);
        let capacity = capacity.clamp(needed, limit.max(needed));
        if capacity > LARGE_BYTES {
            let share = self.share.get_or_insert_with(|| room.share());
            if !share.grow(capacity) {
                return false;
            }
        }
        self.bytes.reserve_exact(capacity - self.bytes.len());
        true
    }
}

async fn given_up(share: Option<&Share<'_>>) {
    match share {
        Some(share) => share.given_up().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};
    use http_body_util::Full;

    use super::*;

    fn full(bytes: usize) -> Full<Bytes> {
        Full::from(vec![b'x'; bytes])
    }

    #[tokio::test]
    async fn a_body_is_cut_off_beyond_its_limit() {
        for (len, kept, whole) in [(0, 0, true), (9, 9, true), (10, 10, true), (11, 10, false)] {
            let (body, end) = read_into(&ROOM, &mut full(len), 10).await;
            assert_eq!(body.len(), kept);
            assert_eq!(matches!(end, Ok(End::Whole)), whole, "{len}");
        }
    }

    /// A body of so many zeroes, in frames of 64 KiB, that rests after them.
    fn resting(bytes: usize) -> impl Frames<Data = Bytes, Error = std::io::Error> + Unpin {
        const FRAME: usize = 64 * 1024;
        let frame = || Ok(hyper::body::Frame::data(Bytes::from_static(&[0; FRAME])));
        let frames = futures::stream::iter((0..bytes / FRAME).map(move |_| frame()));
        http_body_util::StreamBody::new(frames.chain(futures::stream::pending()))
    }

    #[tokio::test]
    async fn the_largest_answer_gives_way_and_small_ones_need_no_room() {
        const MIB: usize = 1024 * 1024;
        let room: &'static Room = Box::leak(Box::new(Room::new(16 * MIB)));
        let mut nine = resting(9 * MIB);
        let hostile = read_into(room, &mut nine, 128 * MIB);
        let mut hostile = std::pin::pin!(hostile);
        assert!(hostile.as_mut().now_or_never().is_none());
        // It holds all that there is, which a small one does not touch.
        let (small, end) = read_into(room, &mut full(LARGE_BYTES), MIB).await;
        assert!(matches!(end, Ok(End::Whole)) && small.share.is_none());
        assert!(hostile.as_mut().now_or_never().is_none());
        let (large, end) = read_into(room, &mut full(4 * MIB), 16 * MIB).await;
        assert!(matches!(end, Ok(End::Whole)) && large.len() == 4 * MIB);
        let given_up = hostile.now_or_never();
        assert!(matches!(given_up, Some((_, Ok(End::Crowded)))));
        drop((large, given_up));
        let (_, end) = read_into(room, &mut resting(64 * MIB), 128 * MIB).await;
        assert!(matches!(end, Ok(End::Crowded)), "more than there is");
    }
}
