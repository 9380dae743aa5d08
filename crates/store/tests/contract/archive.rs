//! What a store promises of sessions as things: search, forks, removal, snapshots, due sessions.
