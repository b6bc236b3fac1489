# SPDX-License-Identifier: GPL-2.0-only
"""The peers of senders.sh, and the program around aiocoap.

usage: senders.py receive PORT
       senders.py send ADDRESS PORT OWN_PORT ntp|rtp
       senders.py rtpengine PORT PORT
       senders.py coap ADDRESS

receive prints how many datagrams came before SIGTERM. send sends $BURSTS bursts of $COUNT
packets, of $SIZE bytes if they are not questions to an NTP server, and one each $GAP seconds;
it prints how many answers came. rtpengine asks the one at 127.0.0.1 to relay from one port of
10.99.0.2 to the other, and prints the port of it to send to. coap sends bursts of requests.
"""

import os
import re
import signal
import socket
import struct
import sys
import time

BURSTS, COUNT, SIZE = (int(os.environ[name]) for name in ("BURSTS", "COUNT", "SIZE"))
GAP = float(os.environ["GAP"])


def udp_socket(port):
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("", port))
    return own


def drain(own, seconds):
    """Count what comes within that time."""
    end, count = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        own.settimeout(left)
        try:
            own.recv(65536)
        except TimeoutError:
            break
        count += 1
    return count


def receive(port):
    count = 0

    def stop(*_):
        print(count)
        sys.exit()

    signal.signal(signal.SIGTERM, stop)
    own = udp_socket(int(port))
    while True:
        own.recv(65536)
        count += 1


def packet(kind, number):
    if kind == "ntp":
        return bytes([0x23]) + bytes(47)
    return struct.pack("!BBHII", 0x80, 96, number, 0, 1) + bytes(SIZE - 12)


def send(address, port, own_port, kind):
    own, answers = udp_socket(int(own_port)), 0
    for burst in range(BURSTS):
        for number in range(COUNT):
            own.sendto(packet(kind, burst * COUNT + number), (address, int(port)))
        answers += drain(own, GAP)
    print(answers)


def bencoded(words):
    text = "".join(f"{len(word)}:{word}" for item in sorted(words.items()) for word in item)
    return f"d{text}e".encode()


def rtpengine(*ports):
    """Offer the first port and answer with the second: the last SDP is for the first."""
    own, words = udp_socket(0), {"call-id": "call", "from-tag": "from"}
    own.settimeout(10)
    for command, port in zip(("offer", "answer"), ports):
        words["command"] = command
        words["sdp"] = "\r\n".join((
            "v=0", "o=- 1 1 IN IP4 10.99.0.2", "s=-", "c=IN IP4 10.99.0.2", "t=0 0",
            f"m=video {port} RTP/AVP 96", "a=rtpmap:96 H264/90000", ""))
        own.sendto(command.encode() + b" " + bencoded(words), ("127.0.0.1", 2223))
        reply = own.recv(65536).decode()
        words["to-tag"] = "to"
    print(re.search(r"m=video (\d+)", reply)[1])


def coap(address):
    import asyncio
    from aiocoap import POST, Context, Message, Unreliable

    async def bursts():
        context = await Context.create_client_context()
        for _ in range(BURSTS):
            requests = [context.request(Message(
                code=POST, uri=f"coap://{address}/", payload=bytes(SIZE),
                transport_tuning=Unreliable), handle_blockwise=False) for _ in range(COUNT)]
            await asyncio.sleep(GAP)
            # Nobody answers.
            for request in requests:
                request.response.cancel()

    asyncio.run(bursts())


{"receive": receive, "send": send, "rtpengine": rtpengine, "coap": coap}[sys.argv[1]](*sys.argv[2:])
