"""Decompression uses no more memory than the limit, whatever the declared size."""

import gzip
import zlib
from collections.abc import Callable

import pytest
from backports import zstd

from services.ingest.http.content_encoding import Inflater, codec_of
from shared.errors import BODY_TOO_LARGE, UserError

LIMIT = 300_000


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [(b"gzip", gzip.compress), (b"zstd", zstd.compress), (b"deflate", zlib.compress)],
)
def test_a_bomb_inflates_to_its_first_byte_above_the_limit(
    encoding: bytes, compress: Callable[[bytes], bytes]
) -> None:
    codec = codec_of(encoding)
    assert codec is not None
    inflater = Inflater(codec, LIMIT)
    with pytest.raises(UserError) as caught:
        list(inflater.feed(compress(b" " * 20 * LIMIT)))
    assert (caught.value.fault, inflater.size) == (BODY_TOO_LARGE, LIMIT + 1)
