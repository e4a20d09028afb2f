"""LZFSE streams: blocks of every kind decode to what was packed; broken ones are refused with the offset."""

from __future__ import annotations

import contextlib
import random
from base64 import b85decode

import pytest

from openane.errors import AneError, FormatError
from openane.formats.lzfse import decompress

TEXT = " ".join(f"layer {i} of {i * i % 97} channels, kernel {i % 7}x{i % 5}" for i in range(160)).encode()
COMPRESSED = b85decode(
    "Vs>~knHB&5`~biQ0LuYjzf;aX=!XMfrT_o{KRloS&%g(u0000W0v>HMFDh^w*a85+98hfD0^Q%iSmS0KJOX#=O6~;!000001^@s600000@B{z="
    "00a0C9*?i#rFbP?ijUz__!hng00000000000N{YZ;b6cx;%LCZ0C)ff000000000000000000000000000000000000000000000fG~rd>S~Ju"
    "Iu1d{w+$b3hBvgoJwzAa6IOfm=;ol#YItTDswQv(sQn2{W+gzeKL=m{4`KZ~{Ida*2e9%q+Ga1NX3jQ?wmyYX=;MtEfWWQVmVHZ8fr}StJ~Sb{"
    "%g+492;h~$e%&48_y@|o?ECZJ*i21U3|{~M0000000000kUpdydz<JgAP^yxuP!55M7J$Y>*EhX(cohBn!O<5{?i>Jxh%cB4s!@d#)ai*36Y$("
    "j2tR^%t1X4@J>FIxzUTzq;J`<ETYy~g0%Y%DrrOv!OG|*Gvfr}Iju`l#tFYGs2z+pZgNoZ0`7s)KTGD~B)=`x?&1x<TBvrs7sgPrfC#Z%*Ckm|"
    "65<)ho_EbaSl4=o8`hzi>!d>!Cwk%QhB6U8;Td|(CGvH!id=RQ{qpoeE$W|hOgG-1;B~*%wU0Y=2*igM>D}Vm@m^IO2oEl!xre>U4lMj#TpZ9p"
    "YybQv8&-C^LhUuYcky2pHQzn@b{IM;Yq$CWl59V*#?cFxdr?)W*w_~6vlCFx*AGEUpp!5AAbcsFjzNf!c>LOx_y>7DUe{vwxr8GyG0ID*4bZMX"
    "1zTu`S>T2)$u1u1y~c5bw>RvjJ5BG=g(B1^|Mp3n=RRts36Y%3q3>$wdUah*x-2lNtMxt9bX)(gD=LBgK5g^rx37%U+xCS<jZ&ZOfzY0E6mQ*c"
    "vQk^xv9C5pZEh4Fm6~Js#l5cOhV5Ign)Y4Dj$NA@|Dk%-wEv4+S<^jWds8gZJtS#UED}d@8!YyX8G%u)7I%!yi%tU9?$d>?aY=s4mBXHUSF47%"
    ">0PgN?cP(b(iCqU`LEVXdq=fn)`fDckk;FF<hH~Tcn3(&>h55h<k_G5&B)g9O^=#|cmKW0tO*?1EmW&ZJLa^^iolY4P)S#}mwo*f8jnre&sy*H"
    "-L;w3Y!}TtwVLgrXP=}pw%4tmTKRVT*%!9NC*{0aFSrBHt(9`eahR2KH{k}1<nBich}Mp$tzk8^k9?a}b9*@7^IF`qoLB3Xy>snVYU8bA|BAKo"
    "M!r|91!K5(#oE(%WGhQVS0UN>bK0<;SC2#SUamjx0KMAK!bwlCtsefCe7zoU+0`ej=3=mSwOa2sbdz;+9g3Q)naeSElXbh^xso;UB*~ODF$mj~"
    "J+Tawn$<9dyjTyoq<gE?ino8=WW|tSP+6{KEb)sf)r#LDoT%C5#=cC+3%c7BJ+H~!^gM427qz+B?|d;0I|U(8a#xusWa5TGyl4P+pL<n)<q6Ts"
    "<j!RhD$L}`MG_!v$`+g2&OcqC;Ym`sg+P5!szR+p8I++l1Z7Z$))16I8Co4;N@8|+Bm")
"""TEXT by the reference encoder: an entropy-coded block."""
SHORT = b85decode(
    "Vs?0LSONe5(f|Me>TF?oWpW@eAa7;>1?^*KVQy|^Y;!CiYh`i(3FRO#crYLsB2F=GG5XFicro)%GHx{b&N6s1^G-8vIr`2scr)`*W;AFcHu}yq"
    "cr^1)HJ&mx{AjE-@lG~qMl<_ptv2yiH#m&>Xs$5vPB>`MHv4F=G4W10X%;y9Xs<HyQCl%?Gx}~b@)2BUYBKw1ur%>mUNLASH~MI?HStkkF_<Jb"
    "GW=+=Ht|tnF*qanXtFT!Ry8^7`!KT+V`xY=`{*)wF(7PVd1VFw00000003fkcq9")
"""The first 600 bytes by the reference encoder: an LZVN block."""


def stored(data: bytes) -> bytes:
    return b"bvx-" + len(data).to_bytes(4, "little") + data


@pytest.mark.parametrize(("stream", "contents"), [
    (COMPRESSED, TEXT), (SHORT, TEXT[:600]), (b"bvx$", b""), (stored(b"abc") + b"bvx$", b"abc"),
    (stored(TEXT) + COMPRESSED, TEXT * 2)])
def test_what_was_packed_comes_out(stream: bytes, contents: bytes) -> None:
    assert decompress(stream, len(contents)) == contents
    if contents:
        with pytest.raises(FormatError, match="holds too much"):
            decompress(stream, len(contents) - 1)


@pytest.mark.needs("lzfse")
def test_against_the_reference_encoder() -> None:
    import lzfse

    draw = random.Random(2)
    for size in (1, 3, 17, 200, 3000, 4095, 4096, 20000, 70000):
        for alphabet in (b"a", b"ab", b"etaoin shr", bytes(range(256))):
            data = bytes(draw.choice(alphabet) for _ in range(size))
            assert decompress(lzfse.compress(data), size) == data


@pytest.mark.parametrize("stream", [b"", b"bvx", b"bvx1" + bytes(900), stored(b"abc"), b"bvxn" + bytes(8)])
def test_no_stream(stream: bytes) -> None:
    with pytest.raises(FormatError):
        decompress(stream, 100)


def test_mutants_raise_nothing_else() -> None:
    draw = random.Random(3)
    for stream in (COMPRESSED, SHORT, stored(b"abc") + COMPRESSED):
        for _ in range(400):
            mutant = bytearray(stream)
            for _ in range(draw.randrange(1, 4)):
                mutant[draw.randrange(len(mutant))] = draw.randrange(256)
            with contextlib.suppress(AneError):
                assert len(decompress(bytes(mutant[:draw.randrange(len(mutant) + 1)]), 20000)) <= 20000
            with contextlib.suppress(AneError):
                decompress(bytes(mutant), 20000)
