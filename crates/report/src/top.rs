//! The screen of `top`: pipelines, a line a stage.

use itertools::Itertools as _;
use pipespeed_base::named;
use pipespeed_base::text::is_printable;
use pipespeed_pipeline::diagnosis::Certainty;
use pipespeed_pipeline::observe::{Link, Moment, PaceSetter, Pipeline, Shares, Stage};
use pipespeed_pipeline::wait::Outside;

use super::format::{fixed, pluralize, significant};
use super::style::{BOLD, DIM, Style};

/// The order of the pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// Processor time, most first.
    #[default]
    Cpu,
    /// The rate of the fastest stage, most first.
    Rate,
    /// The names of the stages.
    Name,
    /// The start of the first stage, the oldest first.
    Age,
}

named!(Sort {
    Cpu = "cpu": "most processor time first",
    Rate = "rate": "fastest first",
    Name = "name": "by the names of the stages",
    Age = "age": "oldest first",
});

impl Sort {
    /// The order that follows.
    pub fn next(self) -> Self {
        match self {
            Sort::Cpu => Sort::Rate,
            Sort::Rate => Sort::Name,
            Sort::Name => Sort::Age,
            Sort::Age => Sort::Cpu,
        }
    }
}

/// How the screen is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct View<'a> {
    /// The terminal's columns.
    pub width: usize,
    /// Its rows.
    pub height: usize,
    /// Whether colours may be used.
    pub colour: bool,
    /// The order of the pipelines.
    pub sort: Sort,
    /// Whether the screen is held.
    pub is_paused: bool,
    /// Whether the explanations are shown instead of the pipelines.
    pub is_help: bool,
    /// The number of lines to skip at the beginning; fewer if there are not as many.
    pub skipped: usize,
    /// What to say if there is no pipeline.
    pub if_none: &'a str,
}

/// A drawn screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// As many lines as the screen has rows, none wider than it.
    pub lines: Vec<String>,
    /// The number of lines that were skipped.
    pub skipped: usize,
    /// The number of lines of pipelines that fit.
    pub page: usize,
}

/// A state in which a stage was, with its share of the time.
struct State {
    letter: char,
    word: &'static str,
    colour: &'static str,
}

const WORKS: State = State {
    letter: 'W',
    word: "work",
    colour: "30;42",
};
const DISK: State = State {
    letter: 'D',
    word: "disk",
    colour: "30;45",
};
const BLOCKED: State = State {
    letter: 'B',
    word: "blkd",
    colour: "30;43",
};
const STARVED: State = State {
    letter: 'S',
    word: "strv",
    colour: "97;44",
};
const ELSEWHERE: State = State {
    letter: 'E',
    word: "else",
    colour: "30;47",
};
const STOPPED: State = State {
    letter: 'T',
    word: "stop",
    colour: "97;41",
};

/// The columns of numbers.
const NUMBERS: [State; 5] = [WORKS, DISK, BLOCKED, STARVED, ELSEWHERE];

/// The states with their shares.
fn states(shares: &Shares) -> [(State, f64); 6] {
    [
        (WORKS, shares.working),
        (DISK, shares.disk),
        (BLOCKED, shares.blocked),
        (STARVED, shares.starved),
        (ELSEWHERE, shares.elsewhere),
        (STOPPED, shares.stopped),
    ]
}

/// A line that is cut off at the width of the screen.
struct Line {
    text: String,
    filled: usize,
    width: usize,
    style: Style,
}

impl Line {
    fn new(view: &View<'_>) -> Self {
        Line {
            text: String::new(),
            filled: 0,
            width: view.width,
            style: Style {
                colour: view.colour,
                ..Style::default()
            },
        }
    }

    /// Adds text, coloured unless `code` is empty.
    fn put(&mut self, text: &str, code: &str) {
        let kept: String = text
            .chars()
            .take(self.width.saturating_sub(self.filled))
            .collect();
        self.filled += kept.chars().count();
        if code.is_empty() || kept.is_empty() {
            self.text.push_str(&kept);
        } else {
            self.text.push_str(&self.style.paint(&kept, code));
        }
    }

    /// Adds blanks up to a column.
    fn to(&mut self, column: usize) {
        let count = column.saturating_sub(self.filled);
        self.put(&" ".repeat(count), "");
    }

    /// Adds text that ends at a column, after at least one blank.
    fn right(&mut self, column: usize, text: &str, code: &str) {
        let start = column.saturating_sub(text.chars().count());
        self.to(start.max(self.filled + 1));
        self.put(text, code);
    }

    fn finish(self) -> String {
        self.text
    }
}

/// A column of the table, except for the stage, which always stands first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Pid,
    Second,
    SecondShares,
    MinuteShares,
    Rate,
    Pipe,
    Percent,
    Capacity,
    WaitsFor,
}

/// The columns from left to right.
const ORDER: [Column; 9] = [
    Column::Pid,
    Column::Second,
    Column::SecondShares,
    Column::MinuteShares,
    Column::Rate,
    Column::Pipe,
    Column::Percent,
    Column::Capacity,
    Column::WaitsFor,
];

/// The columns by importance: on a narrow screen the last ones are left out.
const BY_IMPORTANCE: [Column; 9] = [
    Column::Second,
    Column::Rate,
    Column::Pipe,
    Column::MinuteShares,
    Column::Pid,
    Column::Percent,
    Column::SecondShares,
    Column::WaitsFor,
    Column::Capacity,
];

/// The name of the stage that sets the pace.
const UNDERLINED: &str = "1;4";

const MARKER: usize = 2;
const MIN_STAGE: usize = 10;
const MAX_STAGE: usize = 15;
const MAX_BAR: usize = 20;
const PIPE_BAR: usize = 8;
const NUMBER: usize = 5;
/// Between the shares of the last second and those of the last minute.
const GAP: usize = 2;

/// Which columns fit, and how wide they are.
#[derive(Debug, Clone)]
struct Layout {
    columns: Vec<Column>,
    stage: usize,
    bar: usize,
    has_disk: bool,
}

impl Layout {
    fn new(moment: &Moment, width: usize) -> Self {
        let stages = || moment.pipelines.iter().flat_map(|it| &it.stages);
        let longest = stages().map(|it| it.name.chars().count()).max();
        let longest = longest.unwrap_or(0).clamp("stage".len(), MAX_STAGE);
        let mut layout = Layout {
            columns: Vec::new(),
            stage: longest.min(MIN_STAGE),
            // A longer one says more than the least important columns.
            bar: (width / 8).clamp(8, 12),
            has_disk: stages().any(|it| it.minute.shares.disk >= 0.005),
        };
        let mut left = width.saturating_sub(MARKER + layout.stage);
        for column in BY_IMPORTANCE {
            let needed = layout.width(column);
            // The less important ones follow in order, so that columns never swap.
            if needed > left {
                break;
            }
            left -= needed;
            layout.columns.push(column);
        }
        let more = left.min(longest - layout.stage);
        layout.stage += more;
        layout.bar = (layout.bar + left - more).min(MAX_BAR);
        layout
    }

    fn has(&self, column: Column) -> bool {
        self.columns.contains(&column)
    }

    /// The columns that are shown, from left to right.
    fn shown(&self) -> impl Iterator<Item = Column> {
        ORDER.into_iter().filter(|column| self.has(*column))
    }

    fn numbers(&self) -> impl Iterator<Item = State> {
        let has_disk = self.has_disk;
        let all = NUMBERS.into_iter();
        all.filter(move |state| has_disk || state.letter != DISK.letter)
    }

    /// The width of a column, with the blank before it.
    fn width(&self, column: Column) -> usize {
        match column {
            Column::Pid => 8,
            Column::Second => 1 + self.bar,
            Column::SecondShares => NUMBER * self.numbers().count(),
            Column::MinuteShares => GAP + NUMBER * self.numbers().count(),
            Column::Rate => 8,
            Column::Pipe => 1 + PIPE_BAR + 2,
            Column::Percent => 5,
            Column::Capacity => 8,
            Column::WaitsFor => 2 + "a child process".len(),
        }
    }
}

/// Draws the screen.
pub fn top_screen(moment: &Moment, view: &View<'_>) -> Screen {
    let layout = Layout::new(moment, view.width);
    let is_low = view.height < 14;
    let mut lines = vec![headline(moment, view)];
    if !is_low {
        lines.push(String::new());
        lines.push(groups(moment, view, &layout));
    }
    lines.push(headings(view, &layout, is_low));
    let mut below = Vec::new();
    if !is_low {
        below.push(String::new());
        below.push(legend(moment, view));
    }
    let page = view.height.saturating_sub(lines.len() + below.len() + 1);
    let content = if view.is_help {
        help(view)
    } else {
        content(moment, view, &layout, page)
    };
    let skipped = view.skipped.min(content.len().saturating_sub(page));
    let rest = content.len() - skipped;
    lines.extend(content.into_iter().skip(skipped).take(page));
    lines.resize(view.height.saturating_sub(below.len() + 1), String::new());
    lines.extend(below);
    lines.push(footer(view, rest.saturating_sub(page), skipped));
    lines.truncate(view.height);
    Screen {
        lines,
        skipped,
        page,
    }
}

/// The pipelines as text, without the rest of the screen.
pub fn top_once(moment: &Moment, sort: Sort, if_none: &str, style: Style) -> String {
    let view = View {
        width: style.width(),
        height: usize::MAX,
        colour: style.colour,
        sort,
        if_none,
        ..View::default()
    };
    let layout = Layout::new(moment, view.width);
    let mut lines = vec![headline(moment, &view), String::new()];
    if !moment.pipelines.is_empty() {
        lines.push(groups(moment, &view, &layout));
        lines.push(headings(&view, &layout, false));
    }
    lines.extend(content(moment, &view, &layout, usize::MAX));
    if !moment.pipelines.is_empty() {
        lines.extend([String::new(), legend(moment, &view)]);
    }
    let lines = lines.iter().map(|line| line.trim_end());
    lines.map(|line| format!("{line}\n")).collect()
}

fn headline(moment: &Moment, view: &View<'_>) -> String {
    let mut line = Line::new(view);
    let stages = moment.pipelines.iter().map(|it| it.stages.len()).sum();
    let pipelines = pluralize(moment.pipelines.len(), "pipeline");
    let cost = fixed(moment.cost * 100.0, 2);
    let samples = moment.samples;
    if view.width < 70 {
        line.put(&pipelines, BOLD);
    } else {
        line.put("pipespeed top", BOLD);
        line.put(
            &format!(": {pipelines}, {}", pluralize(stages, "stage")),
            "",
        );
    }
    if view.is_paused {
        line.put("  ", "");
        line.put("PAUSED", "7");
    }
    let right = if view.width < 70 {
        format!("{cost} % cpu")
    } else {
        format!("{samples} samples/s, {cost} % of a processor")
    };
    line.right(view.width, &right, DIM);
    line.finish()
}

/// `last minute`, or how long it is until there is one.
fn history(moment: &Moment) -> String {
    match moment.seconds.round() {
        seconds if seconds < 60.0 => format!("last {seconds} s"),
        _ => "last minute".to_owned(),
    }
}

/// What groups of columns show.
fn groups(moment: &Moment, view: &View<'_>, layout: &Layout) -> String {
    let mut line = Line::new(view);
    let mut column = MARKER + layout.stage;
    for shown in layout.shown() {
        let start = column + 1;
        column += layout.width(shown);
        match shown {
            Column::Pid => {}
            Column::Second if layout.has(Column::SecondShares) => {}
            Column::Second => {
                line.to(start);
                line.put("last second", DIM);
            }
            Column::SecondShares => line.right(column, "last second, %", DIM),
            Column::MinuteShares => line.right(column, &format!("{}, %", history(moment)), DIM),
            Column::Pipe => {
                line.to(start);
                line.put("pipe after it", DIM);
            }
            _ => {}
        }
    }
    line.finish()
}

fn headings(view: &View<'_>, layout: &Layout, is_low: bool) -> String {
    let mut line = Line::new(view);
    let mut column = MARKER + layout.stage;
    if layout.has(Column::Pid) {
        column += layout.width(Column::Pid);
        line.right(column - layout.stage - 1, "pid", BOLD);
    }
    line.to(column - layout.stage);
    line.put("stage", BOLD);
    for shown in layout.shown() {
        let start = column + 1;
        if shown != Column::Pid {
            column += layout.width(shown);
        }
        match shown {
            Column::Pid | Column::Percent => {}
            Column::Second if is_low => {
                line.to(start);
                line.put("second", BOLD);
            }
            Column::Second => {}
            Column::SecondShares | Column::MinuteShares => {
                let mut end = column - NUMBER * layout.numbers().count();
                for state in layout.numbers() {
                    end += NUMBER;
                    line.right(end, state.word, state.colour);
                }
            }
            Column::Rate => line.right(column, "MiB/s", BOLD),
            Column::Pipe => {
                line.to(start);
                line.put("fill", BOLD);
            }
            Column::Capacity => line.right(column, "size", BOLD),
            Column::WaitsFor => {
                line.to(start + 1);
                line.put("waits for", BOLD);
            }
        }
    }
    line.finish()
}

fn legend(moment: &Moment, view: &View<'_>) -> String {
    let is_wide = view.width >= 80;
    let mut shares = moment.pipelines.iter().flat_map(|it| &it.stages);
    let is_stopped = shares.any(|it| it.minute.shares.stopped > 0.0);
    let mut entries = vec![(WORKS, "works"), (DISK, "disk")];
    if is_wide {
        entries.extend([
            (BLOCKED, "blocked (pipe full)"),
            (STARVED, "starved (pipe empty)"),
        ]);
    } else {
        entries.extend([(BLOCKED, "blocked"), (STARVED, "starved")]);
    }
    entries.push((ELSEWHERE, "elsewhere"));
    if is_stopped {
        entries.push((STOPPED, "stopped"));
    }
    let mut line = Line::new(view);
    for (at, (state, meaning)) in entries.into_iter().enumerate() {
        if at > 0 {
            line.put("  ", "");
        }
        line.put(&state.letter.to_string(), state.colour);
        line.put(&format!(" {meaning}"), "");
    }
    line.finish()
}

fn footer(view: &View<'_>, below: usize, above: usize) -> String {
    let mut line = Line::new(view);
    let keys: &[(&str, &str)] = if view.is_help {
        &[("q", "quit"), ("?", "back")]
    } else {
        &[("q", "quit"), ("p", "pause"), ("s", "sort"), ("?", "help")]
    };
    for (at, (key, meaning)) in keys.iter().enumerate() {
        if at > 0 {
            line.put("  ", "");
        }
        line.put(key, "7");
        line.put(&format!(" {meaning}"), "");
        if *key == "s" && view.width >= 60 {
            line.put(&format!(": {}", view.sort), "");
        }
    }
    let more = match (above, below) {
        (0, 0) => return line.finish(),
        (above, 0) if view.width < 60 => format!("{above} above"),
        (_, below) if view.width < 60 => format!("{below} below"),
        (0, below) => format!("{below} more below"),
        (above, 0) => format!("{above} more above"),
        (above, below) => format!("{above} above, {below} below"),
    };
    line.right(view.width, &more, BOLD);
    line.finish()
}

/// The pipelines, with blank lines between them if all fit.
fn content(moment: &Moment, view: &View<'_>, layout: &Layout, page: usize) -> Vec<String> {
    if moment.pipelines.is_empty() {
        return paragraph(view.if_none, view.width);
    }
    let blocks: Vec<Vec<String>> = sorted(moment, view.sort)
        .map(|pipeline| block(pipeline, view, layout))
        .collect();
    let needed: usize = blocks.iter().map(|block| block.len() + 1).sum();
    let mut lines = Vec::new();
    for (at, block) in blocks.into_iter().enumerate() {
        if needed <= page.saturating_add(1) && at > 0 {
            lines.push(String::new());
        }
        lines.extend(block);
    }
    lines
}

fn sorted(moment: &Moment, sort: Sort) -> impl Iterator<Item = &Pipeline> {
    let total = |pipeline: &Pipeline, value: fn(&Stage) -> f64| {
        let stages = pipeline.stages.iter();
        stages.map(value).fold(0.0, f64::max)
    };
    let age = |pipeline: &Pipeline| pipeline.stages.iter().map(|it| (it.start, it.pid)).min();
    let pipelines = moment.pipelines.iter();
    pipelines.sorted_by(|a, b| {
        let most = |value: fn(&Stage) -> f64| total(b, value).total_cmp(&total(a, value));
        let order = match sort {
            // In whole percent, so that nothing moves for nothing.
            Sort::Cpu => most(|stage| (stage.minute.processor * 100.0).round()),
            Sort::Rate => most(|stage| stage.minute.written_per_s.unwrap_or(0.0)),
            Sort::Name => chain(a).cmp(&chain(b)),
            Sort::Age => std::cmp::Ordering::Equal,
        };
        order.then_with(|| age(a).cmp(&age(b)))
    })
}

/// A name that can't disturb the screen.
fn name(stage: &Stage) -> String {
    stage.name.replace(|letter| !is_printable(letter), "?")
}

/// `yes | head | wc`.
fn chain(pipeline: &Pipeline) -> String {
    pipeline.stages.iter().map(name).join(separator(pipeline))
}

/// What stands between the names of stages: a comma if they don't form a chain.
fn separator(pipeline: &Pipeline) -> &'static str {
    let stages = &pipeline.stages;
    let mut pairs = stages.windows(2);
    let is_chain = pairs.all(|pair| {
        let mut links = pipeline.links.iter();
        links.any(|link| (link.from, link.to) == (pair[0].pid, pair[1].pid))
    });
    if is_chain { " | " } else { ", " }
}

/// A pipeline: a headline, and a line a stage.
fn block(pipeline: &Pipeline, view: &View<'_>, layout: &Layout) -> Vec<String> {
    let mut line = Line::new(view);
    let verdict = verdict(pipeline, view.width < 70);
    let room = view.width.saturating_sub(verdict.chars().count() + 2);
    let is_too_long = chain(pipeline).chars().count() > room;
    line.width = if is_too_long {
        room.saturating_sub(3)
    } else {
        room
    };
    for (at, stage) in pipeline.stages.iter().enumerate() {
        if at > 0 {
            line.put(separator(pipeline), BOLD);
        }
        let is_pace = pipeline.sets_pace(stage);
        line.put(&name(stage), if is_pace { UNDERLINED } else { BOLD });
    }
    line.width = view.width;
    if is_too_long {
        line.put("...", BOLD);
    }
    line.right(
        view.width,
        &verdict,
        if is_still(pipeline) { DIM } else { "" },
    );
    let mut lines = vec![line.finish()];
    for stage in &pipeline.stages {
        let is_pace = pipeline.sets_pace(stage);
        let own = pipeline.links.iter().filter(|link| link.from == stage.pid);
        let links: Vec<&Link> = own.collect();
        let only = match links[..] {
            [link] => Some(link),
            _ => None,
        };
        lines.push(row(stage, is_pace, only, view, layout));
        if only.is_none() && layout.has(Column::Pipe) {
            lines.extend(
                links
                    .iter()
                    .map(|link| branch(pipeline, link, view, layout)),
            );
        }
    }
    lines
}

/// Whether nothing happens in a pipeline.
fn is_still(pipeline: &Pipeline) -> bool {
    const MIN_STILL_S: f64 = 5.0;
    pipeline.still_s >= MIN_STILL_S
}

/// What is known about a pipeline as a whole.
fn verdict(pipeline: &Pipeline, is_short: bool) -> String {
    if is_still(pipeline) {
        let still = duration(pipeline.still_s);
        return if is_short {
            format!("still for {still}")
        } else {
            format!("nothing ran for {still}")
        };
    }
    let stage = |pace: &PaceSetter| {
        let found = pipeline.stages.iter().find(|stage| stage.pid == pace.pid);
        found.map(name).unwrap_or_default()
    };
    match &pipeline.pace {
        Some(pace) if is_short => format!("pace: {}", stage(pace)),
        Some(pace) => {
            let verb = match pace.certainty {
                Certainty::Clear => "sets the pace",
                Certainty::Likely => "probably sets the pace",
            };
            let waits = pace
                .waits_for
                .map(|it| format!(" (waits for {})", it.name()));
            format!("{} {verb}{}", stage(pace), waits.unwrap_or_default())
        }
        None if pipeline.is_by_turns => "by turns".to_owned(),
        None => String::new(),
    }
}

fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

fn row(
    stage: &Stage,
    is_pace: bool,
    link: Option<&Link>,
    view: &View<'_>,
    layout: &Layout,
) -> String {
    let mut line = Line::new(view);
    let text = |code| if stage.has_ended { DIM } else { code };
    if is_pace {
        line.put(">", BOLD);
    }
    let mut column = MARKER;
    if layout.has(Column::Pid) {
        column += layout.width(Column::Pid);
        line.right(column - 1, &stage.pid.to_string(), text(""));
    }
    line.to(column);
    column += layout.stage;
    let shown: String = name(stage).chars().take(layout.stage).collect();
    line.put(&shown, text(if is_pace { BOLD } else { "" }));
    for shown in layout.shown().filter(|column| *column != Column::Pid) {
        let start = column;
        column += layout.width(shown);
        match shown {
            Column::Second if stage.has_ended => {
                line.to(start + 1);
                line.put("ended", DIM);
            }
            Column::Second => {
                line.to(start + 1);
                bar(&mut line, &stage.second.shares, layout.bar);
            }
            Column::SecondShares if !stage.has_ended => {
                numbers(&mut line, column, &stage.second.shares, layout);
            }
            Column::MinuteShares => numbers(&mut line, column, &stage.minute.shares, layout),
            Column::Rate if !stage.has_ended => {
                line.right(column, &rate(stage.second.written_per_s), "");
            }
            Column::WaitsFor if !stage.has_ended => {
                let second = &stage.second;
                let is_outside = second.shares.elsewhere >= 0.005;
                let waits = second.waits_for.filter(|_| is_outside).map(Outside::name);
                if let Some(waits) = waits {
                    line.to(start + 2);
                    line.put(waits, "");
                }
            }
            _ => {}
        }
        if let Some(link) = link {
            pipe(&mut line, shown, start, column, link);
        }
    }
    line.finish()
}

/// A line for one of several pipes after a stage.
fn branch(pipeline: &Pipeline, link: &Link, view: &View<'_>, layout: &Layout) -> String {
    let mut line = Line::new(view);
    let mut column = MARKER + layout.stage;
    if layout.has(Column::Pid) {
        column += layout.width(Column::Pid);
    }
    line.to(column - layout.stage);
    let reader = pipeline.stages.iter().find(|stage| stage.pid == link.to);
    line.put(
        &format!(" to {}", reader.map(name).unwrap_or_default()),
        DIM,
    );
    for shown in layout.shown().filter(|column| *column != Column::Pid) {
        let start = column;
        column += layout.width(shown);
        pipe(&mut line, shown, start, column, link);
    }
    line.finish()
}

/// A column about the pipe after a stage.
fn pipe(line: &mut Line, column: Column, start: usize, end: usize, link: &Link) {
    match (column, link.fill) {
        (Column::Pipe, fill) => {
            line.to(start + 1);
            let bar = match fill {
                _ if link.is_held => format!("{:<PIPE_BAR$}", "held"),
                Some(fill) => {
                    let full = (fill * PIPE_BAR as f64).round() as usize;
                    format!("{:<PIPE_BAR$}", "#".repeat(full.min(PIPE_BAR)))
                }
                None => format!("{:^PIPE_BAR$}", "?"),
            };
            line.put("[", DIM);
            line.put(&bar, "36");
            line.put("]", DIM);
        }
        (Column::Percent, Some(fill)) => line.right(end, &format!("{:.0}%", fill * 100.0), ""),
        (Column::Capacity, _) => {
            let size = link.capacity.map(pipespeed_base::size::format);
            line.right(end, &size.unwrap_or_default(), DIM);
        }
        _ => {}
    }
}

/// Draws shares as a bar of so many cells.
fn bar(line: &mut Line, shares: &Shares, cells: usize) {
    let states = states(shares);
    let counts = apportion(&states.each_ref().map(|(_, share)| *share), cells);
    for ((state, _), count) in states.iter().zip(counts) {
        if count > 0 && line.style.colour {
            let text = format!("{:<count$}", state.letter);
            line.put(&text, state.colour);
        } else {
            line.put(&state.letter.to_string().repeat(count), "");
        }
    }
}

/// Divides cells by shares, by the method of the largest remainders.
fn apportion<const N: usize>(shares: &[f64; N], cells: usize) -> [usize; N] {
    let sum: f64 = shares.iter().sum();
    if sum <= 0.0 {
        return [0; N];
    }
    let exact = shares.map(|share| share / sum * cells as f64);
    let mut counts = exact.map(|exact| exact as usize);
    let left = cells - counts.iter().sum::<usize>();
    let remainder = |at: usize| exact[at] - exact[at].floor();
    let order = (0..N).sorted_by(|a, b| remainder(*b).total_cmp(&remainder(*a)));
    for at in order.take(left) {
        counts[at] += 1;
    }
    counts
}

/// The shares in percent, up to a column; the largest is bold.
fn numbers(line: &mut Line, column: usize, shares: &Shares, layout: &Layout) {
    let values = |state: &State| {
        let shares = states(shares);
        let mut all = shares.iter();
        let own = all.find(|(other, _)| other.letter == state.letter);
        let stopped = if state.letter == ELSEWHERE.letter {
            shares[5].1
        } else {
            0.0
        };
        own.map_or(0.0, |(_, share)| *share) + stopped
    };
    let most = layout
        .numbers()
        .map(|state| values(&state))
        .fold(0.0, f64::max);
    let mut end = column - NUMBER * layout.numbers().count();
    for state in layout.numbers() {
        end += NUMBER;
        let value = values(&state);
        let text = match (value * 100.0).round() {
            0.0 => "-".to_owned(),
            percent => percent.to_string(),
        };
        let code = match text.as_str() {
            "-" => DIM,
            _ if value == most => BOLD,
            _ => "",
        };
        line.right(end, &text, code);
    }
}

/// A rate in MiB/s.
fn rate(bytes_per_s: Option<f64>) -> String {
    const MIN_SHOWN: f64 = 0.001;
    match bytes_per_s.map(|bytes| bytes / f64::from(1 << 20)) {
        None => "?".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if rate < MIN_SHOWN => format!("<{MIN_SHOWN}"),
        Some(rate) => significant(rate),
    }
}

fn help(view: &View<'_>) -> Vec<String> {
    const TEXT: [&str; 12] = [
        "A stage works if a thread of it runs or could run; else it is blocked if one waits \
         for room in a pipe, starved if one waits for input from one, and elsewhere if all \
         wait for something else: a socket, a terminal, a timer, a child process.",
        "> marks the stage that sets the pace: those before it wait for room, those after it \
         for input. Only a faster stage helps there. By turns: a larger pipe may help.",
        "MiB/s is what a stage writes; ? if it splices, which the kernel does not count.",
        "Nothing ran for a while: pipespeed doctor PID says why.",
        "",
        "q         quit (also Esc)",
        "p, Space  hold the screen, and go on",
        "s         sort by the next of: cpu, rate, name, age",
        "c r n a   sort by processor time, rate, name, age",
        "arrows    scroll (also j k, Page Up and Down, Home, End)",
        "?, h      this help, and back",
        "",
    ];
    let paragraphs = TEXT.iter().map(|text| paragraph(text, view.width));
    paragraphs.flatten().collect()
}

/// The lines of a text. Words that are too long are cut off.
fn paragraph(text: &str, width: usize) -> Vec<String> {
    let style = Style {
        width: Some(width),
        ..Style::default()
    };
    let text = style.sentence(text);
    let lines = text.split('\n');
    lines
        .map(|line| line.chars().take(width).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use pipespeed_pipeline::observe::Window;
    use pipespeed_pipeline::proc::PipeId;
    use proptest::prelude::*;

    use super::*;

    /// Shares of working, blocked and starved; the rest is elsewhere.
    fn window(working: f64, blocked: f64, starved: f64, mib_per_s: Option<f64>) -> Window {
        Window {
            samples: 80,
            shares: Shares {
                working,
                blocked,
                starved,
                elsewhere: 1.0 - working - blocked - starved,
                ..Shares::default()
            },
            waits_for: Some(Outside::Socket),
            processor: working,
            read_per_s: None,
            written_per_s: mib_per_s.map(|rate| rate * f64::from(1 << 20)),
        }
    }

    fn stage(pid: i32, name: &str, second: Window, minute: Window) -> Stage {
        Stage {
            pid,
            start: pid as u64,
            name: name.to_owned(),
            has_ended: false,
            second,
            minute,
        }
    }

    fn link(from: i32, to: i32, fill: f64) -> Link {
        Link {
            from,
            to,
            pipe: PipeId::pipe(from as u64),
            path: None,
            capacity: Some(65536),
            fill: Some(fill),
            fill_minute: Some(fill),
            is_held: false,
        }
    }

    fn packing() -> Pipeline {
        let of = |a, b, c, rate| window(a, b, c, Some(rate));
        Pipeline {
            pace: Some(PaceSetter {
                pid: 461,
                certainty: Certainty::Clear,
                waits_for: None,
            }),
            stages: vec![
                stage(
                    459,
                    "yes",
                    of(0.18, 0.82, 0.0, 161.0),
                    of(0.2, 0.8, 0.0, 155.0),
                ),
                stage(
                    460,
                    "head",
                    of(0.75, 0.25, 0.0, 160.0),
                    of(0.7, 0.3, 0.0, 155.0),
                ),
                stage(
                    461,
                    "gzip",
                    of(0.99, 0.0, 0.01, 0.127),
                    of(0.98, 0.01, 0.01, 0.1),
                ),
                stage(
                    462,
                    "wc",
                    of(0.0, 0.0, 1.0, 0.0),
                    of(0.004, 0.0, 0.996, 0.0),
                ),
            ],
            links: vec![
                link(459, 460, 0.43),
                link(460, 461, 0.95),
                link(461, 462, 0.0),
            ],
            ..Pipeline::default()
        }
    }

    fn fetching() -> Pipeline {
        let mut tee = stage(
            1233,
            "tee",
            window(0.05, 0.0, 0.95, None),
            window(0.05, 0.0, 0.95, None),
        );
        tee.second.shares.disk = 0.05;
        tee.minute.shares.disk = 0.06;
        let mut ended = stage(
            1236,
            "sha256sum",
            window(0.0, 0.0, 1.0, None),
            window(0.1, 0.0, 0.9, None),
        );
        ended.has_ended = true;
        Pipeline {
            pace: Some(PaceSetter {
                pid: 1232,
                certainty: Certainty::Likely,
                waits_for: Some(Outside::Socket),
            }),
            stages: vec![
                stage(
                    1232,
                    "curl",
                    window(0.03, 0.0, 0.0, Some(12.1)),
                    window(0.04, 0.0, 0.0, Some(11.0)),
                ),
                tee,
                stage(
                    1234,
                    "a-very-long-nam",
                    window(0.0, 0.0, 0.9, Some(1e-6)),
                    window(0.0, 0.0, 0.9, Some(0.0)),
                ),
                ended,
            ],
            links: vec![
                link(1232, 1233, 0.02),
                link(1233, 1234, 1.0),
                link(1233, 1236, 0.0),
            ],
            ..Pipeline::default()
        }
    }

    fn still() -> Pipeline {
        Pipeline {
            still_s: 754.0,
            stages: vec![
                stage(
                    77,
                    "sleep\x1b[2J",
                    window(0.0, 0.0, 0.0, Some(0.0)),
                    window(0.0, 0.0, 0.0, Some(0.0)),
                ),
                stage(
                    78,
                    "cat",
                    window(0.0, 0.0, 1.0, Some(0.0)),
                    window(0.0, 0.0, 1.0, Some(0.0)),
                ),
            ],
            links: vec![link(77, 78, 0.0)],
            ..Pipeline::default()
        }
    }

    fn moment() -> Moment {
        Moment {
            seconds: 75.0,
            samples: 82,
            cost: 0.0068,
            pipelines: vec![still(), packing(), fetching()],
            hidden: 0,
        }
    }

    fn view(width: usize, height: usize) -> View<'static> {
        View {
            width,
            height,
            if_none: "No processes of this user are connected by a pipe (--all: of all users).",
            ..View::default()
        }
    }

    fn drawn(moment: &Moment, view: &View<'_>) -> String {
        top_screen(moment, view).lines.join("\n")
    }

    #[test]
    fn a_usual_screen_shows_shares_and_pipes_and_the_pace_setter() {
        insta::assert_snapshot!(drawn(&moment(), &view(80, 24)));
    }

    #[test]
    fn a_wide_screen_shows_both_windows_in_numbers() {
        insta::assert_snapshot!(drawn(&moment(), &view(120, 40)));
    }

    #[test]
    fn a_small_screen_keeps_the_bars_and_scrolls() {
        let first = drawn(&moment(), &view(40, 10));
        let scrolled = View {
            skipped: 100,
            is_paused: true,
            ..view(40, 10)
        };
        let last = top_screen(&moment(), &scrolled);
        assert_eq!((last.skipped, last.page), (8, 7));
        insta::assert_snapshot!(format!("{first}\n--\n{}", last.lines.join("\n")));
    }

    #[test]
    fn colours_mark_states_and_the_pace_setter() {
        let view = View {
            colour: true,
            ..view(80, 20)
        };
        let only = Moment {
            pipelines: vec![packing()],
            ..moment()
        };
        insta::assert_snapshot!(drawn(&only, &view).replace('\x1b', "^"));
    }

    #[test]
    fn help_and_an_empty_screen_fit_too() {
        let none = Moment {
            pipelines: Vec::new(),
            ..moment()
        };
        let help = View {
            is_help: true,
            ..view(80, 24)
        };
        let empty = drawn(&none, &view(60, 8));
        insta::assert_snapshot!(format!("{}\n--\n{empty}", drawn(&moment(), &help)));
    }

    #[test]
    fn a_frame_without_a_screen_is_as_long_as_needed() {
        let early = Moment {
            seconds: 2.01,
            ..moment()
        };
        insta::assert_snapshot!(top_once(&early, Sort::Rate, "", Style::default()));
        let none = Moment {
            pipelines: Vec::new(),
            ..moment()
        };
        let text = top_once(&none, Sort::Rate, "Nothing.", Style::of_width(80));
        assert!(text.ends_with("\n\nNothing.\n"), "{text}");
    }

    #[test]
    fn pipelines_are_sorted_as_requested() {
        let first = |sort| {
            let moment = moment();
            let names: Vec<String> = sorted(&moment, sort)
                .map(|it| it.stages[0].name.clone())
                .collect();
            names
                .into_iter()
                .map(|name| name[..4.min(name.len())].to_owned())
                .collect::<Vec<String>>()
        };
        assert_eq!(first(Sort::Cpu), ["yes", "curl", "slee"]);
        assert_eq!(first(Sort::Rate), ["yes", "curl", "slee"]);
        assert_eq!(first(Sort::Name), ["curl", "slee", "yes"]);
        assert_eq!(first(Sort::Age), ["slee", "yes", "curl"]);
        let mut sort = Sort::default();
        for _ in 0..4 {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::default());
    }

    #[test]
    fn cells_are_divided_by_the_largest_remainders() {
        assert_eq!(apportion(&[0.5, 0.25, 0.25], 10), [5, 3, 2]);
        assert_eq!(apportion(&[0.99, 0.01, 0.0], 10), [10, 0, 0]);
        assert_eq!(apportion(&[0.0, 0.0], 10), [0, 0]);
    }

    proptest! {
        #[test]
        fn any_size_is_filled_and_never_exceeded(
            width in 1_usize..200,
            height in 1_usize..60,
            skipped in 0_usize..40,
            is_help: bool,
            is_paused: bool,
        ) {
            let view = View { skipped, is_help, is_paused, ..view(width, height) };
            let lines = top_screen(&moment(), &view).lines;
            prop_assert_eq!(lines.len(), height);
            for line in &lines {
                let is_plain = line.chars().all(is_printable);
                prop_assert!(is_plain && line.chars().count() <= width, "{:?}", line);
            }
        }
    }
}
