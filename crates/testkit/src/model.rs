//! A scripted model.
