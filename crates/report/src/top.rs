//! The screen of `top`: pipelines, a line a stage.

mod line;

use std::cmp::Reverse;

use itertools::Itertools as _;
use pipespeed_base::named;
use pipespeed_base::text::escape;
use pipespeed_pipeline::diagnosis::Certainty;
use pipespeed_pipeline::live::{LiveStage, Moment, Pipeline, StageLink};

use self::line::{
    Layout, MARKER, MIN_MEDIUM, NUMBER, NUMBERS, PID, RATE, SHARES, STATES, ScreenLine,
};
use super::bottleneck::waits_for;
use super::doctor::{hidden, hidden_calls, silent};
use super::format::{fixed, list, pluralize};
use super::style::{BOLD, DIM, Style};

named! {
    /// The order of the pipelines.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Sort {
        /// most processor time first
        #[default]
        Cpu = "cpu",
        /// fastest first
        Rate = "rate",
        /// by the names of the stages
        Name = "name",
    }
}

impl Sort {
    /// The order that follows.
    pub fn next(self) -> Self {
        match self {
            Sort::Cpu => Sort::Rate,
            Sort::Rate => Sort::Name,
            Sort::Name => Sort::Cpu,
        }
    }
}

/// How the screen is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct TopView<'a> {
    /// The terminal's columns.
    pub width: usize,
    /// Its rows. `None` for text without a screen, which is as long as needed.
    pub height: Option<usize>,
    /// Whether colours may be used.
    pub colour: bool,
    /// The order of the pipelines.
    pub sort: Sort,
    /// Whether the screen is held.
    pub is_paused: bool,
    /// The number of lines to skip at the beginning; fewer if there are not as many.
    pub skipped: usize,
    /// What to say if there is no pipeline.
    pub if_none: &'a str,
}

/// A drawn screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawnScreen {
    /// As many lines as the screen has rows, none wider than it.
    pub lines: Vec<String>,
    /// The number of lines that were skipped.
    pub skipped: usize,
    /// The number of lines of pipelines that fit.
    pub page: usize,
}

/// The name of the bottleneck.
const UNDERLINED: &str = "1;4";
const REVERSED: &str = "7";
/// A lower screen has one line of headings and no legend.
const MIN_HIGH: usize = 14;

/// Draws the screen.
pub fn top_screen(moment: &Moment, view: &TopView<'_>) -> DrawnScreen {
    let layout = Layout::new(view.width);
    let is_low = view.height.is_some_and(|height| height < MIN_HIGH);
    let mut head = vec![headline(moment, view)];
    let mut foot = Vec::new();
    if !is_low {
        head.extend([String::new(), groups(moment, view, &layout)]);
        foot.push(String::new());
        let notes = [
            hidden(moment.hidden, moment.hides_processes),
            hidden_calls(moment.hidden_calls),
            silent(&moment.silent, moment.lacks_helpers),
            undersampled(moment).filter(|_| !moment.pipelines.is_empty()),
        ];
        for note in notes.into_iter().flatten() {
            foot.extend(paragraph(&note, view, DIM));
        }
        foot.push(legend(moment, view));
    }
    head.push(headings(view, &layout, is_low));
    let around = head.len() + foot.len() + 1;
    let page = view.height.map(|height| height.saturating_sub(around));
    let content = content(moment, view, &layout, page);
    let page = page.unwrap_or(content.len());
    let skipped = view.skipped.min(content.len().saturating_sub(page));
    let below = content.len().saturating_sub(skipped + page);
    let mut lines = head;
    lines.extend(content.into_iter().skip(skipped).take(page));
    if let Some(height) = view.height {
        lines.resize(height.saturating_sub(foot.len() + 1), String::new());
        foot.push(footer(view, below, skipped));
    }
    lines.extend(foot);
    lines.truncate(view.height.unwrap_or(usize::MAX));
    DrawnScreen {
        lines,
        skipped,
        page,
    }
}

/// The pipelines as text without a screen.
pub fn top_once(moment: &Moment, sort: Sort, if_none: &str, style: Style) -> String {
    let view = TopView {
        width: style.width(),
        colour: style.colour,
        sort,
        if_none,
        ..TopView::default()
    };
    let lines = top_screen(moment, &view).lines;
    let lines = lines.iter().map(|line| line.trim_end());
    lines.map(|line| format!("{line}\n")).collect()
}

fn headline(moment: &Moment, view: &TopView<'_>) -> String {
    let mut line = ScreenLine::new(view);
    let is_wide = view.width >= MIN_MEDIUM;
    if is_wide {
        line.put("pipespeed top: ", "");
    }
    line.put(&pluralize(moment.pipelines.len(), "pipeline"), BOLD);
    if is_wide {
        let stages = moment
            .pipelines
            .iter()
            .map(|pipeline| pipeline.stages.len())
            .sum();
        line.put(&format!(", {}", pluralize(stages, "stage")), "");
    }
    if moment.hidden > 0 {
        line.put(&format!(", {} hidden", moment.hidden), "");
    }
    let cost = format!("{} % CPU", fixed(moment.cost * 100.0, 2));
    if view.is_paused {
        line.at_end("PAUSED", REVERSED);
    } else if is_wide {
        let rate = f64::from(moment.samples) / moment.since_s.max(f64::MIN_POSITIVE);
        line.at_end(&format!("{rate:.0} samples/s, {cost}"), DIM);
    } else {
        line.at_end(&cost, DIM);
    }
    line.text
}

/// What groups of columns show.
fn groups(moment: &Moment, view: &TopView<'_>, layout: &Layout) -> String {
    let mut line = ScreenLine::new(view);
    line.left(layout.names(), "", "");
    if layout.is_wide {
        let second = match moment.since_s.round() {
            seconds if seconds > 1.0 => format!("last {seconds} s, %"),
            _ => "last second, %".to_owned(),
        };
        line.right(layout.bar + SHARES, &second, DIM);
    } else {
        line.left(layout.bar, "second", DIM);
    }
    if layout.is_medium {
        let minute = match moment.seconds.round() {
            seconds if seconds < 60.0 => format!("last {seconds} s, %"),
            _ => "last minute, %".to_owned(),
        };
        line.right(SHARES, &minute, DIM);
    }
    line.put("   pipe after it", DIM);
    line.text
}

fn headings(view: &TopView<'_>, layout: &Layout, is_low: bool) -> String {
    let mut line = ScreenLine::new(view);
    line.left(MARKER, "", "");
    if layout.is_medium {
        line.right(PID - 1, "pid", BOLD);
        line.put(" ", "");
    }
    line.left(layout.stage + 1, "stage", BOLD);
    line.left(layout.bar, if is_low { "second" } else { "" }, BOLD);
    let groups = usize::from(layout.is_medium) + usize::from(layout.is_wide);
    for _ in 0..groups {
        line.put("  ", "");
        for (_, word, _, colour) in &STATES[..NUMBERS] {
            line.right(NUMBER, word, colour);
        }
    }
    line.right(RATE, "MiB/s", BOLD);
    line.put(" fill", BOLD);
    line.text
}

fn legend(moment: &Moment, view: &TopView<'_>) -> String {
    let mut line = ScreenLine::new(view);
    let mut stages = moment
        .pipelines
        .iter()
        .flat_map(|pipeline| &pipeline.stages);
    let is_stopped = stages.any(|stage| stage.minute.shares.stopped > 0.0);
    for (letter, _, meaning, colour) in &STATES[..NUMBERS + usize::from(is_stopped)] {
        let word = meaning.split(" (").next().unwrap_or_default();
        let meaning = if view.width < MIN_MEDIUM {
            word
        } else {
            meaning
        };
        line.put(letter, colour);
        line.put(&format!(" {meaning}  "), "");
    }
    line.text
}

fn footer(view: &TopView<'_>, below: usize, above: usize) -> String {
    let mut line = ScreenLine::new(view);
    let sort = format!(" sort: {}", view.sort);
    for (key, meaning) in [("q", " quit  "), ("p", " pause  "), ("s", &sort)] {
        line.put(key, REVERSED);
        line.put(meaning, "");
    }
    let more = match (above, below) {
        (0, 0) => String::new(),
        (0, below) => format!("{below} below"),
        (above, 0) => format!("{above} above"),
        (above, below) => format!("{above} above, {below} below"),
    };
    line.at_end(&more, BOLD);
    line.text
}

/// That some processes are not shown yet.
fn undersampled(moment: &Moment) -> Option<String> {
    (moment.undersampled > 0).then(|| {
        format!(
            "Not shown yet: {} with pipes between them, sampled too rarely, as top takes 1 % of a processor \
             (doctor examines all at once).",
            pluralize(moment.undersampled, "process")
        )
    })
}

/// The pipelines, with blank lines between them if all fit.
fn content(
    moment: &Moment,
    view: &TopView<'_>,
    layout: &Layout,
    page: Option<usize>,
) -> Vec<String> {
    if moment.pipelines.is_empty() {
        let undersampled = undersampled(moment);
        return paragraph(undersampled.as_deref().unwrap_or(view.if_none), view, "");
    }
    let sorted = sorted(moment, view.sort);
    let blocks = sorted.map(|pipeline| block(pipeline, view, layout));
    let blocks: Vec<Vec<String>> = blocks.collect();
    let needed = blocks.iter().map(|block| block.len() + 1).sum::<usize>() - 1;
    let is_loose = page.is_none_or(|page| needed <= page);
    let mut lines: Vec<String> = Vec::new();
    for block in blocks {
        if is_loose && !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(block);
    }
    lines
}

/// The pipelines in this order, after those that are stuck. Others in which nothing happens come
/// last, unless it is by name.
fn sorted(moment: &Moment, sort: Sort) -> impl Iterator<Item = &Pipeline> {
    let value = |stage: &LiveStage| match sort {
        // In whole percent, so that nothing moves for nothing.
        Sort::Cpu => (stage.minute.processor * 100.0) as u64,
        Sort::Rate => stage.minute.written_per_s.unwrap_or(0.0) as u64,
        Sort::Name => 0,
    };
    moment.pipelines.iter().sorted_by_cached_key(|pipeline| {
        let stages = pipeline.stages.iter();
        let most = stages.clone().map(value).max();
        let age = stages.map(|stage| (stage.start, stage.pid)).min();
        let name = (sort == Sort::Name).then(|| chain(pipeline));
        (
            !is_stuck(pipeline),
            name,
            is_still(pipeline),
            Reverse(most),
            age,
        )
    })
}

/// `yes | head | wc`.
fn chain(pipeline: &Pipeline) -> String {
    let names = pipeline.stages.iter().map(|stage| escape(&stage.name));
    names.into_iter().join(separator(pipeline))
}

/// What stands between the names of stages: a comma if they don't form a chain.
fn separator(pipeline: &Pipeline) -> &'static str {
    let is_link = |(from, to): (&LiveStage, &LiveStage)| {
        let mut links = pipeline.links.iter();
        links.any(|link| (link.from, link.to) == (from.pid, to.pid))
    };
    let is_chain = pipeline.stages.iter().tuple_windows().all(is_link);
    if is_chain { " | " } else { ", " }
}

/// A pipeline: a headline, and a line a stage.
fn block(pipeline: &Pipeline, view: &TopView<'_>, layout: &Layout) -> Vec<String> {
    let mut line = ScreenLine::new(view);
    let verdict = verdict(pipeline, layout.is_medium);
    let room = view.width.saturating_sub(verdict.chars().count() + 2);
    let is_too_long = chain(pipeline).chars().count() > room;
    line.width = room.saturating_sub(if is_too_long { 3 } else { 0 });
    for (at, stage) in pipeline.stages.iter().enumerate() {
        let separator = if at > 0 { separator(pipeline) } else { "" };
        line.put(separator, BOLD);
        let code = if is_bottleneck(pipeline, stage) {
            UNDERLINED
        } else {
            BOLD
        };
        line.put(&escape(&stage.name), code);
    }
    line.width = view.width;
    line.put(if is_too_long { "..." } else { "" }, BOLD);
    line.at_end(&verdict, if is_still(pipeline) { DIM } else { "" });
    let mut lines = vec![line.text];
    for stage in &pipeline.stages {
        let links = pipeline.links.iter().filter(|link| link.from == stage.pid);
        let links: Vec<&StageLink> = links.collect();
        let mut line = row(stage, is_bottleneck(pipeline, stage), view, layout);
        if let [link] = links[..] {
            line.pipe(&link.pipe, stage.has_ended, layout);
            lines.push(line.text);
        } else {
            let width = line.filled;
            lines.push(line.text);
            for link in links {
                let mut stages = pipeline.stages.iter();
                let reader = stages.find(|stage| stage.pid == link.to);
                let name = reader.map_or("", |stage| &stage.name);
                let mut line = ScreenLine::new(view);
                line.left(width, &format!("{:MARKER$}to {}", "", escape(name)), DIM);
                line.pipe(&link.pipe, stage.has_ended, layout);
                lines.push(line.text);
            }
        }
        if let Some(arguments) = &stage.arguments {
            let mut line = ScreenLine::new(view);
            line.left(MARKER + PID, "", "");
            line.put(&escape(arguments), DIM);
            lines.push(line.text);
        }
    }
    lines
}

fn is_bottleneck(pipeline: &Pipeline, stage: &LiveStage) -> bool {
    let bottleneck = pipeline.bottleneck.as_ref();
    bottleneck.is_some_and(|bottleneck| bottleneck.stage.pid == stage.pid)
}

/// Whether nothing happens in a pipeline.
fn is_still(pipeline: &Pipeline) -> bool {
    pipeline.still_s >= 5.0
}

/// Whether a pipeline can't go on, or a writer in it waits for a reader that does not read.
fn is_stuck(pipeline: &Pipeline) -> bool {
    pipeline.stuck.is_some() || pipeline.unread.is_some()
}

/// What is known about a pipeline as a whole.
fn verdict(pipeline: &Pipeline, is_long: bool) -> String {
    if let Some(deadlock) = &pipeline.stuck {
        let probably = match deadlock.certainty {
            Certainty::Clear => "",
            Certainty::Likely => "probably ",
        };
        let pid = deadlock.members.first().map(|member| member.who.pid);
        let pid = pid.map_or(String::new(), |pid| pid.to_string());
        return if is_long {
            format!("{probably}stuck: see 'pipespeed doctor {pid}'")
        } else {
            format!("{probably}stuck")
        };
    }
    if let Some(unread) = &pipeline.unread {
        let readers = unread
            .readers
            .iter()
            .map(|stage| escape(&stage.who.name).into_owned());
        let readers = list(readers.unique());
        return if is_long {
            format!(
                "{} waits, {readers} does not read",
                escape(&unread.writer.name)
            )
        } else {
            format!("unread: {readers}")
        };
    }
    if is_still(pipeline) {
        let seconds = pipeline.still_s as u64;
        return match seconds {
            0..120 => format!("nothing ran for {seconds} s"),
            120..7200 => format!("nothing ran for {} min", seconds / 60),
            _ => format!("nothing ran for {} h", seconds / 3600),
        };
    }
    match &pipeline.bottleneck {
        Some(bottleneck) if is_long => {
            let verb = bottleneck.verb();
            let waits = waits_for(bottleneck);
            let waits = waits.map_or(String::new(), |what| {
                format!(" (waits for {})", escape(&what))
            });
            format!(
                "{} {verb} the bottleneck{waits}",
                escape(&bottleneck.stage.name)
            )
        }
        Some(bottleneck) => format!("bottleneck: {}", escape(&bottleneck.stage.name)),
        None if pipeline.lacks_processors && is_long => "processors are lacking".to_owned(),
        None if pipeline.lacks_processors => "lacks CPU".to_owned(),
        None if pipeline.is_by_turns => "by turns".to_owned(),
        None if pipeline.is_unclear && is_long => "no stage stands out".to_owned(),
        None if pipeline.is_unclear => "unclear".to_owned(),
        None => String::new(),
    }
}

/// The line of a stage, up to the pipe.
fn row(stage: &LiveStage, is_bottleneck: bool, view: &TopView<'_>, layout: &Layout) -> ScreenLine {
    let mut line = ScreenLine::new(view);
    let code = match (stage.has_ended, is_bottleneck) {
        (true, _) => DIM,
        (false, true) => BOLD,
        (false, false) => "",
    };
    line.left(MARKER, if is_bottleneck { ">" } else { "" }, BOLD);
    if layout.is_medium {
        line.right(PID - 1, &stage.pid.to_string(), "");
        line.put(" ", "");
    }
    line.left(layout.stage, &escape(&stage.name), code);
    line.put(" ", "");
    let second = &stage.second;
    if stage.has_ended {
        line.left(layout.bar, "ended", DIM);
    } else {
        line.bar(&second.shares, layout.bar);
    }
    if layout.is_wide && stage.has_ended {
        line.left(SHARES, "", "");
    } else if layout.is_wide {
        line.numbers(&second.shares);
    }
    if layout.is_medium {
        line.numbers(&stage.minute.shares);
    }
    line
}

/// The lines of a text. Words that are too long are cut off.
fn paragraph(text: &str, view: &TopView<'_>, code: &str) -> Vec<String> {
    let style = Style {
        width: Some(view.width),
        ..Style::default()
    };
    let put = |text: &str| {
        let mut line = ScreenLine::new(view);
        line.put(text, code);
        line.text
    };
    style.sentence(text).lines().map(put).collect()
}

#[cfg(test)]
mod tests;
