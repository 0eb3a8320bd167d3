"""The demonstration: a made-up shop, live (`live`) and as an evening of logs (`questions`), every answer checked."""
