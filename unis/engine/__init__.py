"""The Python side of proto/unis/v1/engine.proto."""
