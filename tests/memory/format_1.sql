-- What a program that knows format 1 and no other asks of a store, word for word. It must go on
-- reading and writing whatever format comes later. Never edited.
-- name: newest
SELECT d.id, d.version, d.pinned, v.output FROM documents d JOIN versions v USING (cell, id, version)
WHERE d.cell = ? AND v.status = 'live' ORDER BY d.id
-- name: find cell
SELECT cell FROM cells WHERE user = ? AND visibility = 'private'
-- name: sequence
UPDATE meta SET value = value + 1 WHERE name = 'sequence' RETURNING value
-- name: document
INSERT INTO documents (cell, id, version, changed) VALUES (?, ?, ?, ?)
ON CONFLICT (cell, id) DO UPDATE SET version = excluded.version, changed = excluded.changed
-- name: version
INSERT INTO versions (cell, id, version, status, recorded_at, kind, output, occurred_at)
VALUES (?, ?, ?, ?, 0, 'episodic', ?, 0)
-- name: history
SELECT version, status, output FROM versions WHERE cell = ? AND id = ? ORDER BY version
-- name: edges
SELECT e.id, p.node FROM edges e JOIN participants p ON p.cell = e.cell AND p.edge = e.id
WHERE e.cell = ? AND e.status = 'live' ORDER BY e.id, p.ordinal
