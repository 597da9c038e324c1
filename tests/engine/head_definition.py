"""What heads of vectors must hold, from their definition in numpy."""

import numpy as np

Floats = np.ndarray
Plane = tuple[np.ndarray, np.ndarray, np.ndarray]
Head = tuple[np.ndarray, Plane]

REST = 4  # elements of a head that hold the length of what its directions leave


def is_narrow(plane: Plane, dim: int) -> bool:
    """Whether codes have 4 bits."""
    codes, scales, _ = plane
    return len(codes) * 16 == len(scales) * 64 * -(-dim // 8)


def unpacked(plane: Plane, n: int, dim: int) -> Plane:
    codes, scales, residuals = plane
    if is_narrow(plane, dim):
        halves = np.stack([codes & 15, codes >> 4]).reshape(2, -1, -(-dim // 8), 16, 4)
        blocks = halves.transpose(1, 3, 2, 0, 4).reshape(-1, -(-dim // 8) * 8)
        return 2 * blocks[:n, :dim].astype(np.int8) - 15, scales[:n], residuals[:n]
    steps = -(-dim // 4)
    blocks = codes.reshape(-1, steps, 16, 4).transpose(0, 2, 1, 3).reshape(-1, steps * 4)
    return (blocks[:n, :dim].astype(np.int16) - 128).astype(np.int8), scales[:n], residuals[:n]


def bounded_rest(directions: Floats, along: Floats, rest: Floats) -> Floats:
    """What directions leave of a row at most, when its dots have float32's roundings."""
    n, dim = directions.shape
    deviation = np.linalg.norm(directions @ directions.T - np.eye(n))
    piece = 16  # elements of a piece of a dot
    while 2 * piece**2 < dim:
        piece *= 2
    roundings = max(piece + -(-dim // piece) + 3, -(-dim // 32) + 5) * 2.0**-24
    p = np.sqrt(n * (1 + deviation)) * roundings / (1 - roundings)
    least = np.maximum(np.linalg.norm(along, axis=1) - p, 0)
    most = np.sqrt(np.maximum(1 - (1 - deviation) * least**2, 0))
    assert np.all(most >= rest - 1e-7)
    return np.asarray(most)


def check_definition(rows: Floats, head: Head) -> None:
    """The head of a row is its dots with the directions, and half of what these leave, four times;
    codes and residual say so."""
    n, dim = rows.shape
    directions = head[0].reshape(-1, dim).astype(np.float64)
    assert np.abs(directions @ directions.T - np.eye(len(directions))).max() < 1e-5
    unit = rows.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    along = unit @ directions.T
    rest = np.linalg.norm(unit - along @ directions, axis=1)
    narrow = is_narrow(head[1], len(directions) + REST)
    if narrow:
        rest = bounded_rest(directions, along, rest)
    wanted = np.concatenate([along, np.repeat(rest[:, None] / 2, REST, axis=1)], axis=1)
    codes, scales, residuals = unpacked(head[1], n, wanted.shape[1])
    left = np.linalg.norm(wanted - codes * scales[:, None].astype(np.float64), axis=1)
    # The rest of 8 bits is rounded up, by most where it is 0.
    assert np.all(np.abs(left - residuals) < 1e-3)
    if not narrow:
        assert np.all(np.abs(codes * scales[:, None]) <= np.abs(wanted) + scales[:, None])
        return
    assert np.all(codes % 2 != 0)
    assert np.all(((codes > 0) == (wanted > 0)) | (np.abs(wanted) < 1e-5))
    whole = codes.astype(np.float64)  # the scale is that of least squares
    fitted = (wanted * whole).sum(axis=1) / (whole**2).sum(axis=1)
    assert np.allclose(scales, fitted, rtol=1e-3)
