"""Programs that chat with one library each; see `pipe` for what they are told and what they say."""
