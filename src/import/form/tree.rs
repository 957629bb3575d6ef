//! What JSON and YAML have in common.

/// Deeper values are not those of a connector.
pub(super) const DEPTH_MAX: usize = 32;

/// A value, and where it is.
pub(super) struct Tree {
    /// Counted from 1; of a member, the line of its name.
    pub(super) line: usize,
    pub(super) node: Node,
}

pub(super) enum Node {
    Null,
    /// Text, and numbers and booleans as they were written.
    Text(String),
    List(Vec<Tree>),
    /// In the order of the file; later members of the same name win.
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// The members of a map; none of anything else.
    pub(super) fn members(&self) -> &[(String, Tree)] {
        match &self.node {
            Node::Map(members) => members,
            _ => &[],
        }
    }

    /// The member with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Tree> {
        self.members().iter().rev().find(|(known, _)| known == name).map(|(_, tree)| tree)
    }

    /// A member's member, and so on.
    pub(super) fn path(&self, names: &[&str]) -> Option<&Tree> {
        names.iter().try_fold(self, |tree, name| tree.get(name))
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.node, Node::Map(_))
    }
}
