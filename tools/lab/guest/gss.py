# SPDX-License-Identifier: GPL-2.0
"""Calls of RPCSEC_GSS (RFC 2203) with a context of Kerberos, by the library of MIT Kerberos.

The machine needs a keytab with the key of nfs/client.
"""

import ctypes
import functools
import os
import struct
import subprocess

import nfs_calls
from peer import words

GSS, VERSION = 6, 1
#: The procedures of RPCSEC_GSS and the services.
DATA, INIT = 0, 1
SERVICES = {"krb5": 1, "krb5i": 2, "krb5p": 3}
MUTUAL_FLAG, CONTINUE_NEEDED, FAILURE = 2, 1, 0xFFFF0000
CACHE = "/run/requester.tickets"
#: Seconds in which the server asks its daemon about a new context.
PATIENCE = 30


class GssError(Exception):
    """A function of the library failed."""


class _Buffer(ctypes.Structure):
    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_char_p))

    def __init__(self, data=b""):
        super().__init__(len(data), data)


class _Output(ctypes.Structure):
    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_void_p))


@functools.cache
def _library():
    """Returns the library, once the ticket of the machine is in CACHE."""
    os.environ["KRB5CCNAME"] = CACHE
    subprocess.run(["kinit", "-k", "-t", "/etc/krb5.keytab", "nfs/client"], check=True)
    return ctypes.CDLL("libgssapi_krb5.so.2")


def _run(name, *arguments):
    """Calls a function of the library; returns its status.

    # Errors
    `GssError` when it fails.
    """
    minor = ctypes.c_uint32()
    status = getattr(_library(), name)(ctypes.byref(minor), *arguments) & 0xFFFFFFFF
    if status & FAILURE:
        raise GssError(f"{name}: {status:#x}, {minor.value}")
    return status


def _taken(output):
    """Returns the bytes of an output, which the library gets back."""
    data = ctypes.string_at(output.value, output.length) if output.length else b""
    _run("gss_release_buffer", ctypes.byref(output))
    return data


class _Context:
    """A security context with the server's NFS service."""

    def __init__(self):
        self._name, self._context = ctypes.c_void_p(), ctypes.c_void_p()
        kind = ctypes.c_void_p.in_dll(_library(), "GSS_C_NT_HOSTBASED_SERVICE")
        name = _Buffer(b"nfs@server")
        _run("gss_import_name", ctypes.byref(name), kind, ctypes.byref(self._name))

    def step(self, token):
        """Takes a token of the server; returns the next one for it, and whether it is the last."""
        given, output = _Buffer(token), _Output()
        # The credential, mechanism and bindings of default, and the longest lifetime.
        status = _run(
            "gss_init_sec_context",
            None,
            ctypes.byref(self._context),
            self._name,
            None,
            MUTUAL_FLAG,
            0xFFFFFFFF,
            None,
            ctypes.byref(given),
            None,
            ctypes.byref(output),
            None,
            None,
        )
        return _taken(output), not status & CONTINUE_NEEDED

    def mic(self, data):
        given, output = _Buffer(data), _Output()
        _run("gss_get_mic", self._context, 0, ctypes.byref(given), ctypes.byref(output))
        return _taken(output)

    def verify(self, data, mic):
        """Checks a MIC.

        # Errors
        `GssError` when it is not that of the data.
        """
        given, token = _Buffer(data), _Buffer(mic)
        _run("gss_verify_mic", self._context, ctypes.byref(given), ctypes.byref(token), None)

    def wrap(self, data):
        given, output = _Buffer(data), _Output()
        _run("gss_wrap", self._context, 1, 0, ctypes.byref(given), None, ctypes.byref(output))
        return _taken(output)

    def unwrap(self, data):
        """Decrypts.

        # Errors
        `GssError` when the data was changed.
        """
        given, output = _Buffer(data), _Output()
        _run("gss_unwrap", self._context, ctypes.byref(given), ctypes.byref(output), None, None)
        return _taken(output)


class Realm:
    """Calls of NFS under one flavour of Kerberos."""

    def __init__(self, link, flavour):
        """Makes a context by calls over the connection of `link`."""
        self._service = SERVICES[flavour]
        #: Whether the arguments are signed or encrypted as a whole.
        self.wraps = self._service > 1
        self._sequence = 0
        self._handle = b""
        self._context = _Context()
        token, done = self._context.step(b"")
        while not done:
            token, done = self._context.step(self._establish(link, token))

    def _credential(self, procedure):
        body = words(VERSION, procedure, self._sequence, self._service)
        body += nfs_calls.opaque(self._handle)
        return words(GSS) + nfs_calls.opaque(body)

    def _head(self, xid, procedure, gss_procedure=DATA, *, version=3):
        """Returns the header of a call up to its verifier."""
        head = words(xid, 0, 2, nfs_calls.NFS, version, procedure)
        return head + self._credential(gss_procedure)

    def _establish(self, link, token):
        """Sends a token; returns the one in the reply."""
        head = self._head(link.xid(), nfs_calls.NULL, INIT) + words(0, 0)
        reply = link.ask(head + nfs_calls.opaque(token), PATIENCE)
        results = nfs_calls.result(reply.body)
        self._handle, results = _opaque(results)
        major, minor = struct.unpack_from(">2I", results)
        if major & FAILURE:
            raise GssError(f"the server's status is {major:#x}, {minor}")
        return _opaque(results[12:])[0]

    def call(self, xid, procedure, arguments, *, version=3):
        """Returns a whole call, and the length of its header."""
        self._sequence += 1
        head = self._head(xid, procedure, version=version)
        head += words(GSS) + nfs_calls.opaque(self._context.mic(head))
        return head + self._wrapped(arguments), len(head)

    def _wrapped(self, arguments):
        if not self.wraps:
            return arguments
        body = words(self._sequence) + arguments
        if self._service == SERVICES["krb5p"]:
            return nfs_calls.opaque(self._context.wrap(body))
        return nfs_calls.opaque(body) + nfs_calls.opaque(self._context.mic(body))

    def results(self, reply):
        """Returns the results of the reply to the last call.

        # Errors
        `nfs_calls.RpcError` when the call was not accepted, `GssError` when the reply is not the
        server's.
        """
        results = nfs_calls.result(reply)
        mic, _ = _opaque(reply[16:])
        self._context.verify(words(self._sequence), mic)
        if not self.wraps:
            return results
        body, rest = _opaque(results)
        if self._service == SERVICES["krb5p"]:
            body = self._context.unwrap(body)
        else:
            self._context.verify(body, _opaque(rest)[0])
        if body[:4] != words(self._sequence):
            raise GssError("the reply is that of another call")
        return body[4:]


def _opaque(data):
    """Returns the opaque at the beginning of XDR, and what is behind it."""
    length = int.from_bytes(data[:4], "big")
    return data[4 : 4 + length], data[4 + length + -length % 4 :]
