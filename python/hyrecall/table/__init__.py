"""An Arrow table becomes checked columns, texts and vectors."""
