//! Tests of `held`.

use tollgate_config::Millis;

use super::super::{LAYOUT, Page};
use super::{Entry, HEAD, NoRoom, SIZE};
use crate::hold::{Fence, HoldId};
use crate::store::local::record::hold::Hold;
use crate::store::local::record::{Kind, Name};

const NOW: Millis = Millis(1_000_000);
const PER: Millis = Millis(10_000);

fn page(room: usize) -> Page {
    Page::read([], HEAD + room * SIZE)
}

const fn lease(id: u128) -> Name {
    let kind = Kind::Lease;
    Name { id, kind }
}

const QUOTA: Name = Name {
    id: 1,
    kind: Kind::Quota,
};

fn take(page: &mut Page, name: Name, id: u64, until: u64, now: Millis) -> Result<(), NoRoom> {
    let hold = Hold {
        id: HoldId(id),
        until: Millis(until),
        marked: false,
        lingers: Millis(0),
    };
    page.hold(name, &hold, &[], now)
}

fn entries(page: &Page) -> usize {
    page.chunks().len()
}

fn at(offset: u64) -> Millis {
    NOW.plus(Millis(offset))
}

#[test]
fn what_has_ended_of_a_name_goes_when_something_of_it_is_written() {
    let mut page = page(80);
    for id in 0..5 {
        take(&mut page, lease(1), id, NOW.0 + 10 + id, NOW).unwrap();
        take(&mut page, lease(2), id, NOW.0 + 10 + id, NOW).unwrap();
    }
    take(&mut page, lease(1), 9, NOW.0 + 1000, at(13)).unwrap();
    assert_eq!(entries(&page), 5 + 2);
    assert_eq!(page.slot_wait(lease(1), 2, at(13)), Some(Millis(1)));
    assert_eq!(page.slot_wait(lease(1), 3, at(13)), None);
}

#[test]
fn a_quota_takes_an_entry_for_six_grants_and_none_for_past_ones() {
    let mut page = page(80);
    for grant in 0..200 {
        page.spend(QUOTA, PER, &[], at(grant)).unwrap();
    }
    assert_eq!(entries(&page), 34);
    assert_eq!(page.quota_wait(QUOTA, 201, PER, at(199)), None);
    let wait = page.quota_wait(QUOTA, 200, PER, at(199));
    assert_eq!(wait, Some(Millis(10_000 - 199)));
    assert_eq!(page.quota_wait(QUOTA, 200, PER, at(10_000)), None);
    // Half of them are past.
    page.spend(QUOTA, PER, &[], at(10_099)).unwrap();
    assert_eq!(entries(&page), 17);
    // All of them are past for a shorter quota.
    page.spend(QUOTA, Millis(1000), &[], at(11_500)).unwrap();
    assert_eq!(entries(&page), 1);
}

#[test]
fn of_a_full_page_only_what_has_ended_makes_room() {
    // One place is the overflow bucket's.
    let mut page = page(4);
    for id in 0..3 {
        take(&mut page, lease(id), 7, NOW.0 + 10 + id as u64, NOW).unwrap();
    }
    assert_eq!(take(&mut page, lease(9), 7, NOW.0 + 60, at(9)), Err(NoRoom));
    assert_eq!(page.spend(QUOTA, PER, &[], at(9)), Err(NoRoom));
    take(&mut page, lease(9), 7, NOW.0 + 60, at(10)).unwrap();
    page.spend(QUOTA, PER, &[], at(11)).unwrap();
    assert_eq!(page.evictions(), 0);
    assert_eq!(
        take(&mut page, lease(8), 7, NOW.0 + 60, at(11)),
        Err(NoRoom)
    );
    let held: Vec<bool> = [0, 1, 2, 9]
        .map(|id| page.slot_wait(lease(id), 1, at(11)).is_some())
        .to_vec();
    assert_eq!(held, [false, false, true, true]);
}

#[test]
fn a_mark_is_no_holder_and_is_neither_held_on_nor_let_go() {
    let mut page = page(10);
    let mark = Hold {
        id: HoldId(7),
        until: at(100),
        marked: true,
        lingers: Millis(0),
    };
    page.hold(lease(1), &mark, &[], NOW).unwrap();
    assert_eq!(page.slot_wait(lease(1), 1, NOW), None);
    assert!(!page.hold_until(lease(1), HoldId(7), at(500), NOW));
    assert!(!page.let_go(lease(1), HoldId(7), Millis(0), NOW));
    assert!(page.is_marked(lease(1), HoldId(7), at(99)));
    assert!(!page.is_marked(lease(1), HoldId(7), at(100)));
    assert!(!page.is_marked(lease(1), HoldId(8), at(99)));
    assert!(!page.is_marked(lease(2), HoldId(7), at(99)));
}

#[test]
fn what_has_ended_is_not_held_on() {
    let mut page = page(10);
    take(&mut page, lease(1), 7, NOW.0 + 10, NOW).unwrap();
    assert!(page.hold_until(lease(1), HoldId(7), at(20), at(9)));
    assert!(!page.hold_until(lease(1), HoldId(8), at(30), at(9)));
    assert!(!page.hold_until(lease(2), HoldId(7), at(30), at(9)));
    assert_eq!(page.slot_wait(lease(1), 1, at(9)), Some(Millis(11)));
    // An earlier end is as good.
    assert!(page.hold_until(lease(1), HoldId(7), at(15), at(12)));
    assert!(!page.hold_until(lease(1), HoldId(7), at(30), at(15)));
    assert!(page.let_go(lease(1), HoldId(7), Millis(0), NOW));
    assert!(!page.let_go(lease(1), HoldId(7), Millis(0), NOW));
}

#[test]
fn fences_are_microseconds_and_grow_through_everything() {
    let mut page = page(4);
    let mut fences = Vec::new();
    for now in [NOW, NOW, at(1), Millis(5), Millis(u64::MAX)] {
        fences.push(page.next_fence(now));
        page = Page::read(page.into_bytes(), HEAD + 4 * SIZE);
    }
    let start = NOW.0 * 1000;
    let near: Vec<u64> = fences[..4].iter().map(|fence| fence.0).collect();
    assert_eq!(near, [start, start + 1, start + 1000, start + 1001]);
    assert_eq!(fences[4], Fence((1 << 56) - 1));
}

#[test]
fn a_page_of_before_there_were_fences_is_read_as_it_was() {
    let mut bytes = vec![0; HEAD];
    bytes[0] = LAYOUT;
    bytes[8] = 77;
    let bucket = Name {
        id: 5,
        kind: Kind::Key,
    };
    let entry = [5_u64, 0, 1 << 56 | NOW.0, 3, 1 << 32 | 1, 0];
    bytes.extend(entry.iter().flat_map(|word| word.to_le_bytes()));
    let mut page = Page::read(bytes, HEAD + 4 * SIZE);
    assert_eq!(page.floor, Millis(77));
    assert_eq!(page.kept(bucket).unwrap().level.spent, 3);
    assert_eq!(page.next_fence(NOW), Fence(NOW.0 * 1000));
    // The fence is no part of the floor, nor of the layout.
    let page = Page::read(page.into_bytes(), HEAD + 4 * SIZE);
    assert_eq!(page.floor, Millis(77));
    let read = page.chunks().iter().map(Entry::read);
    assert!(read.eq(page.all()));
}
