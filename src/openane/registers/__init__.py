"""The register language: fields, registers, blocks, banks; encode, decode, check. Knows no chip, imports no numpy."""

from openane.registers.bank import Bank
from openane.registers.block import Block, Fields, Register
from openane.registers.check import check_bank, check_block, check_register
from openane.registers.field import Evidence, Field, FieldError, Value

__all__ = ["Bank", "Block", "Evidence", "Field", "FieldError", "Fields", "Register", "Value",
           "check_bank", "check_block", "check_register"]
