//! The call chains as a tree, from the system call inwards.

use super::record::Stack;

/// A function in the tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TreeNode {
    /// Its name.
    pub name: String,
    /// The weight of the samples in it and in the functions it calls.
    pub weight: u64,
    /// The functions it calls, the heaviest first.
    pub calls: Vec<TreeNode>,
}

/// The outer frames of every system call on x86-64 and arm64, which are left out.
const PRELUDE: &[&str] = &[
    "entry_SYSCALL_64",
    "entry_SYSCALL_64_after_hwframe",
    "do_syscall_64",
    "x64_sys_call",
    "el0t_64_sync",
    "el0t_64_sync_handler",
    "el0_svc",
    "do_el0_svc",
    "el0_svc_common",
    "invoke_syscall",
    "ret_from_fork",
];

/// The tree of all chains; its root has no name.
pub fn tree(stacks: &[Stack]) -> TreeNode {
    let mut root = TreeNode::default();
    for stack in stacks {
        root.weight += stack.weight;
        let mut at = &mut root;
        let mut frames = stack.frames.iter();
        let within = frames.position(|frame| !PRELUDE.contains(&frame.as_str()));
        // A chain of only these keeps its innermost frame.
        let frames = &stack.frames[within.unwrap_or(stack.frames.len() - 1)..];
        for frame in frames {
            at = at.child(frame);
            at.weight += stack.weight;
        }
    }
    root.sort();
    root
}

impl TreeNode {
    fn child(&mut self, name: &str) -> &mut TreeNode {
        let known = self.calls.iter().position(|call| call.name == name);
        let at = known.unwrap_or_else(|| {
            let name = name.to_owned();
            self.calls.push(TreeNode {
                name,
                ..TreeNode::default()
            });
            self.calls.len() - 1
        });
        &mut self.calls[at]
    }

    fn sort(&mut self) {
        self.calls
            .sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
        for call in &mut self.calls {
            call.sort();
        }
    }

    /// The tree as lines with a share of the root's weight and a name. Functions with a
    /// share below `threshold` are omitted. A function that does little but call another
    /// is on the same line.
    pub fn lines(&self, threshold: f64) -> Vec<String> {
        let mut lines = Vec::new();
        self.draw(self.weight.max(1) as f64, threshold, 0, &mut lines);
        lines
    }

    fn draw(&self, all: f64, threshold: f64, depth: usize, lines: &mut Vec<String>) {
        for call in &self.calls {
            if call.weight as f64 / all < threshold {
                // The others are smaller.
                break;
            }
            let mut name = call.name.clone();
            let mut last = call;
            while let [only, rest @ ..] = last.calls.as_slice()
                && (last.weight - only.weight) as f64 / all < threshold
                && rest.iter().all(|r| (r.weight as f64 / all) < threshold)
                && name.len() < MAX_LINE
            {
                name.push_str(" > ");
                name.push_str(&only.name);
                last = only;
            }
            let share = 100.0 * call.weight as f64 / all;
            lines.push(format!("{:w$}{share:5.1} %  {name}", "", w = 2 * depth));
            last.draw(all, threshold, depth + 1, lines);
        }
    }
}

/// A line of at least this length gets no more functions.
const MAX_LINE: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::groups::CostGroup;

    fn stack(frames: &str, weight: u64) -> Stack {
        Stack {
            frames: frames.split(' ').map(str::to_owned).collect(),
            group: CostGroup::Other,
            weight,
        }
    }

    #[test]
    fn chains_share_their_outer_part_and_lose_the_prelude() {
        let stacks = [
            stack("do_syscall_64 a b c", 50),
            stack("do_syscall_64 a d", 30),
            stack("do_syscall_64", 15),
            stack("a b", 5),
        ];
        let lines = tree(&stacks).lines(0.01);
        assert_eq!(
            lines,
            [
                " 85.0 %  a",
                "   55.0 %  b",
                "     50.0 %  c",
                "   30.0 %  d",
                " 15.0 %  do_syscall_64",
            ]
        );
    }

    #[test]
    fn rare_functions_are_omitted_and_mere_callers_share_a_line() {
        let stacks = [stack("a b c", 98), stack("a b d", 1), stack("e", 1)];
        assert_eq!(tree(&stacks).lines(0.02), [" 99.0 %  a > b > c"]);
    }

    #[test]
    fn no_samples_make_no_lines() {
        assert!(tree(&[]).lines(0.01).is_empty());
    }
}
