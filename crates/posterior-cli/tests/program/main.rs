//! The program from outside, as one test program: it is linked once, and its tests share the cores.

mod checkpoint;
mod common;
mod compare;
mod counts;
mod decide;
mod formats;
mod golden;
mod gp;
mod laplace;
mod memory;
mod moments;
mod old_models;
mod out;
mod output;
mod report;
mod sampling;
mod select;
mod tables;
mod targets;
mod trust;
mod wrong_input;
mod wrong_judging;
