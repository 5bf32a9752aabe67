//! The program from outside, as one test program: it is linked once, and its tests share the cores.

mod common;
mod compare;
mod counts;
mod formats;
mod golden;
mod laplace;
mod moments;
mod output;
mod report;
mod sampling;
mod select;
mod wrong_input;
mod wrong_judging;
