use super::*;
use crate::search::sample::usual_panels;

fn limit(bytes: usize) -> Option<String> {
    (bytes > 1 << 20).then(|| "above the limit".to_owned())
}

#[test]
fn a_full_grid_has_all_powers_of_two_and_refuses_what_is_above_the_limit() {
    let axes = Axes::new(1, 4096, None, None, limit);
    assert_eq!(axes.buffers.len(), 11);
    assert_eq!(axes.pipes, axes.buffers);
    assert_eq!(
        axes.refused.keys().copied().collect::<Vec<_>>(),
        [2 << 20, 4 << 20]
    );
    assert_eq!(axes.runnable(), 99);
    assert_eq!(axes.pairs().count(), 121);
}

#[test]
fn a_coarse_grid_keeps_the_published_sizes_and_the_largest_pipe() {
    for most in [1 << 20, 512 << 10] {
        let limit = |bytes| (bytes > most).then(String::new);
        let axes = Axes::new(2, 4096, None, None, limit);
        for technique in Technique::ALL {
            let published = technique.published();
            assert!(
                axes.pairs().any(|sizes| sizes == published),
                "{technique:?}"
            );
        }
        assert!(axes.pipes.contains(&most), "{axes:?}");
        assert!(axes.runnable() < 50);
    }
}

#[test]
fn a_size_that_is_given_stands_for_its_axis() {
    let axes = Axes::new(2, 4096, Some(12_288), Some(8192), limit);
    assert_eq!((&*axes.buffers, &*axes.pipes), (&[12_288][..], &[8192][..]));
}

#[test]
fn a_case_has_the_panels_technique_waiting_and_processors() {
    let sizes = Sizes {
        buffer_bytes: 8192,
        pipe_bytes: 4096,
    };
    for panel in usual_panels() {
        let case = panel.case(&panel.winner_name(sizes), sizes);
        let (sink, source) = (case.sink.as_ref().unwrap(), case.source.as_ref().unwrap());
        assert_eq!(case.name, format!("{}_8k_pipe_4k", panel.name()));
        assert_eq!((sink.wait, source.wait), (panel.wait, panel.wait));
        assert_eq!((sink.buffer_bytes, source.buffer_bytes), (8192, 8192));
        assert_eq!(case.pipe_bytes, Some(4096));
        assert_eq!(case.cpus, panel.cpus);
        let base = panel.technique == Technique::WriteRead;
        assert_eq!(sink.pages == PageKind::Base, base, "{}", case.name);
    }
}
